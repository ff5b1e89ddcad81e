"""Pays with the client that was generated beside it: pay.py URL SENDER RECIPIENT VALUE."""

import json
import sys

import generated_client as generated  # type: ignore[import-not-found]

url, sender, recipient, value = sys.argv[1:]


def submit(transactions: generated.TransactionsApi, value: str) -> generated.Submitted:
    fields = {"from": sender, "to": recipient, "value": value, "gas": 21_000}
    return transactions.submit_transaction(generated.Submission.from_dict(fields))


def code_of_refusal(transactions: generated.TransactionsApi) -> str:
    try:
        submit(transactions, f"1{value}0000000")
    except generated.ApiException as refused:
        return str(refused.data.code.value)
    return "not refused"


with generated.ApiClient(generated.Configuration(host=url)) as client:
    transactions, accounts = generated.TransactionsApi(client), generated.AccountsApi(client)
    submitted = submit(transactions, value)
    found = transactions.get_transaction(submitted.tx_hash, wait=60, amounts="string").actual_instance
    balances = [accounts.get_account(recipient, amounts=form).balance.actual_instance for form in ("string", "number")]
    # Python's integers hold every amount, so that both forms are exact.
    assert balances[1] == int(balances[0]), balances
    print(
        json.dumps(
            {
                "txHash": submitted.tx_hash,
                "blockHeight": found.block_height,
                "value": found.value.actual_instance,
                "balance": balances[0],
                "refusal": code_of_refusal(transactions),
            }
        )
    )
