"""Find payments in the history of an account: by what they are for, and by who paid."""

from cairn.client import COIN, Account, Client

SHOP, CUSTOMER = Account.dev(1).address, Account.dev(7)

with Client("http://127.0.0.1:8645") as node:
    for coins, order in ((3, "invoice 4711"), (1, "invoice 4712"), (2, "invoice 4711")):
        last = node.wait(node.wallet(CUSTOMER).send(SHOP, coins * COIN, reference=order))

    for tx in node.history(SHOP, direction="in", reference="invoice 4711"):
        print(f"{tx.value // COIN} coins for {tx.reference}")
    for tx in node.history(SHOP, counterparty=CUSTOMER.address, to_height=last.block_height, oldest_first=True):
        print(f"{tx.value // COIN} coins in block {tx.block_height}")
