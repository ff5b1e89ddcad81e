"""The commands that look: the interface's own JSON for scripts, all that matters for people, and exit codes."""

import json
from typing import Any

import pytest

from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS
from tests.e2e.cli.conftest import User
from tests.support.node_process import NodeProcess
from tests.support.public import get_anew, post_anew

FIRST, SECOND = (checksum_address(address) for address, _ in DEV_KEYS[:2])
UNKNOWN = "0x" + "ab" * 32


@pytest.fixture(scope="module")
def payment(node: NodeProcess) -> Any:
    """A confirmed one, as the interface shows it."""
    submission = {"from": FIRST, "to": SECOND, "value": 3 * 10**18, "gas": 21000}
    tx_hash = post_anew(f"{node.url}/tx", submission).json()["txHash"]
    return get_anew(f"{node.url}/tx/{tx_hash}", wait=60).json()


@pytest.fixture(scope="module")
def pending(idle_node: NodeProcess) -> Any:
    for value in (1, 2, 3):
        post_anew(f"{idle_node.url}/tx", {"from": FIRST, "to": SECOND, "value": value, "gas": 21000})
    post_anew(f"{idle_node.url}/tx", {"from": SECOND, "to": FIRST, "value": 4, "gas": 21000})
    return get_anew(f"{idle_node.url}/mempool").json()


def test_a_transaction(user: User, payment: Any) -> None:
    assert user.json("tx", payment["txHash"]) == payment
    shown = user.invoke("tx", payment["txHash"]).stdout
    assert shown == (
        f"transaction  {payment['txHash']}\n"
        f"status       confirmed\n"
        f"from         {FIRST} (dev0)\n"
        f"to           {SECOND} (dev1)\n"
        f"amount       3 coins\n"
        f"nonce        {payment['nonce']}\n"
        f"gas price    1 gwei\n"
        f"fee          21,000 gwei\n"
        f"block        {payment['blockHeight']} {payment['blockHash']}, transaction 1\n"
    )


@pytest.mark.parametrize("name", ["latest", "0", "hash"])
def test_a_block(user: User, payment: Any, name: str) -> None:
    named = payment["blockHash"] if name == "hash" else name
    block = get_anew(f"{user.url}/block/{named}").json()
    assert user.json("block", named) == block
    shown = user.invoke("block", *([] if name == "latest" else [named])).stdout
    assert shown.startswith(f"block         {block['blockHeight']}\nhash          {block['hash']}\n")
    assert all(tx_hash in shown for tx_hash in block["transactions"])


def test_a_block_of_many_transactions_is_cut_short(user: User) -> None:
    first = get_anew(f"{user.url}/account/{SECOND}").json()["pendingNonce"]
    # The gap before them closes last, so that one block gets them all.
    transfers = [
        {"from": SECOND, "to": FIRST, "value": 1, "gas": 21000, "nonce": nonce}
        for nonce in range(first + 4, first - 1, -1)
    ]
    answers = post_anew(f"{user.url}/txs", transfers).json()
    last = get_anew(f"{user.url}/tx/{answers[-1]['txHash']}", wait=60).json()
    hashes = get_anew(f"{user.url}/block/{last['blockHash']}").json()["transactions"]
    shown = user.invoke("block", last["blockHash"], "--limit", "1").stdout.splitlines()
    assert [line.strip() for line in shown[-2:]] == [hashes[0], f"and {len(hashes) - 1} more; --limit shows them"]
    assert user.json("block", last["blockHash"], "--limit", "1")["transactions"] == hashes


def test_an_account_by_address_and_by_name(user: User, payment: Any) -> None:
    account = get_anew(f"{user.url}/account/{FIRST}").json()
    assert user.json("account", FIRST) == user.json("account", "dev0") == account
    shown = user.invoke("account", "dev1").stdout.splitlines()
    assert shown[0] == f"account  {SECOND} (dev1)"
    assert shown[1].endswith(" coins")


def test_an_account_as_of_a_block(user: User, payment: Any) -> None:
    height = payment["blockHeight"]
    before, after = (get_anew(f"{user.url}/account/{SECOND}", height=at).json() for at in (height - 1, height))
    assert after["balance"] - before["balance"] == payment["value"]
    assert user.json("account", "dev1", "--height", str(height - 1)) == before
    assert user.invoke("account", "dev1", "--height", str(height)).stdout.splitlines()[3] == f"as of    block {height}"
    refused = user.run("account", "dev1", "--height", "1", "--history")
    assert (refused.returncode, refused.stderr) == (2, "cairn: --height: is for the balance, not for the history\n")


def test_a_history_has_the_fees_that_the_account_paid(user: User, payment: Any) -> None:
    [sent] = user.json("account", "dev0", "--history", "--limit", "1", "--direction", "out")
    shown = user.invoke("account", "dev0", "--history", "--limit", "1", "--direction", "out").stdout.splitlines()
    assert shown[-1].split("  ")[-2:] == ["21,000 gwei", sent["txHash"]]


def test_a_history(user: User, payment: Any) -> None:
    history = get_anew(f"{user.url}/account/{SECOND}/txs").json()
    assert user.json("account", "dev1", "--history") == history
    assert user.json("account", "dev1", "--history", "--limit", "1") == history[:1]
    shown = user.invoke("account", "dev1", "--history").stdout.splitlines()
    assert shown[0].split() == ["block", "account", "amount", "fee", "transaction"]
    assert shown[-1].split() == [str(payment["blockHeight"]), "from", "dev0", "3", "coins", payment["txHash"]]
    unused = "0x" + "12" * 20
    assert user.invoke("account", unused, "--history").stdout == f"{unused} has sent and received nothing.\n"


def test_references_are_shown_by_each_command_and_what_is_not_text_in_hex(user: User) -> None:
    shown, hidden = (
        user.json("send", "dev6", "dev7", "1", *given)
        for given in (("--reference", "invoice \u05d0\u05d1 4711"), ("--data", "0x1b5b33316d"))
    )
    assert (shown["reference"], shown["fee"]) == ("invoice אב 4711", (21_000 + 16 * 17) * 10**9)
    assert shown["data"] == "0x" + "invoice אב 4711".encode().hex()
    assert (hidden["data"], "reference" in hidden) == ("0x1b5b33316d", False)
    assert 'reference    "invoice אב 4711"\n' in user.invoke("tx", shown["txHash"]).stdout
    assert "data         0x1b5b33316d\n" in user.invoke("tx", hidden["txHash"]).stdout
    heading, newest, before = user.invoke("account", "dev7", "--history").stdout.splitlines()
    assert heading.split()[-1] == "reference"
    assert newest.endswith(f"{hidden['txHash']}  0x1b5b33316d")
    assert before.endswith(f'{shown["txHash"]}  "invoice אב 4711"')


def test_a_history_is_filtered_by_direction_counterparty_and_reference(user: User) -> None:
    for sender, to, said in (("dev8", "dev9", "rent"), ("dev8", "dev9", "food"), ("dev9", "dev8", "rent")):
        user.json("send", sender, to, "1", "--reference", said)

    def references(*options: str) -> list[str]:
        return [tx["reference"] for tx in user.json("account", "dev9", *options)]

    assert references("--history") == ["rent", "food", "rent"]
    assert references("--direction", "in") == ["food", "rent"]
    assert references("--direction", "both") == ["rent", "food", "rent"]
    assert references("--reference", "rent", "--direction", "out") == ["rent"]
    assert references("--counterparty", "dev8", "--reference", "food", "--limit", "5") == ["food"]
    assert user.invoke("account", "dev9", "--counterparty", "dev0").stdout.endswith(
        " (dev9) has no such transaction.\n"
    )


def test_the_chain(user: User) -> None:
    assert user.json("chain") == get_anew(f"{user.url}/chain").json()
    shown = user.invoke("chain").stdout
    assert "chain id    1337\n" in shown
    assert "a block     holds 10,000 transfers at most\n" in shown
    assert "reference   256 bytes at most\n" in shown


def test_the_mempool(idle_user: User, user: User, pending: list[Any]) -> None:
    assert idle_user.json("mempool") == pending
    assert idle_user.json("mempool", "--from", "dev1") == [item for item in pending if item["from"] == SECOND.lower()]
    assert idle_user.json("mempool", "--limit", "2") == pending[:2]
    shown = idle_user.invoke("mempool", "--limit", "2").stdout.splitlines()
    assert shown[0].split() == ["from", "to", "amount", "nonce", "status", "gas", "price", "received", "transaction"]
    assert shown[1].startswith("dev0  dev1  ")
    assert shown[1].split()[4:6] == ["0", "pending"]
    assert shown[-1] == "and 2 more; --limit shows them"
    assert user.invoke("mempool").stdout == "No transaction is pending.\n"


@pytest.mark.parametrize(
    ("args", "exit_code", "code", "advice"),
    [
        (["tx", UNKNOWN], 4, "TX_NOT_FOUND", "check the hash, and that --node is of the same chain"),
        (["tx", "0x12"], 2, "USAGE", "HASH: '0x12' is not 0x and 64 hexadecimal digits"),
        (["tx", "../health"], 2, "USAGE", "is not 0x and 64 hexadecimal digits"),
        (["block", UNKNOWN], 4, "BLOCK_NOT_FOUND", f"no block has the hash {UNKNOWN}"),
        (["block", "99999999"], 4, "BLOCK_NOT_FOUND", "there is no block of that height yet; the latest is "),
        (["block", "newest"], 2, "USAGE", "BLOCK: 'newest' is not a height, latest, or 0x and 64 hexadecimal digits"),
        (["account", "nobody"], 4, "NOT_FOUND", "`cairn keys new NAME` makes one"),
        (["account", FIRST.replace("f39F", "F39F")], 2, "USAGE", "checksum is wrong"),
        (["chain", "--node", "localhost:8645"], 2, "USAGE", "--node localhost:8645: expected a URL"),
        (["chain", "--node", "http://127.0.0.1:1"], 5, "NODE_UNREACHABLE", "`cairn dev` starts a node"),
    ],
)
def test_an_unknown_hash_block_or_name_is_an_error_with_advice(
    user: User, args: list[str], exit_code: int, code: str, advice: str
) -> None:
    result = user.invoke(*args, "--json")
    error = json.loads(result.stderr)
    assert (result.exit_code, error["exitCode"], error["code"], result.stdout) == (exit_code, exit_code, code, "")
    assert advice in error["detail"]
    if exit_code == 5:
        assert user.invoke(*args).stderr == f"cairn: {error['detail']}\n"


def test_a_wait_that_is_too_short(idle_user: User, pending: list[Any]) -> None:
    result = idle_user.invoke("tx", pending[0]["txHash"], "--wait", "0.2")
    assert (result.exit_code, result.stdout) == (6, "")
    assert "is still pending after 0.2 s" in result.stderr
