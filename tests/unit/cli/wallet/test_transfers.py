"""`cairn send` against a node that says something else once the user has agreed; tests/e2e/cli pays at a real one."""

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from cairn.cli.main import app
from cairn.cli.report import CommandFailed
from cairn.cli.wallet.key_files import Keystore
from cairn.cli.wallet.parties import Party, find_party
from cairn.cli.wallet.transfers import (
    Sending,
    TransferOrder,
    describe_other_account,
    read_note,
    read_order,
    read_price,
)
from cairn.client.models import Chain
from cairn.domain.crypto import address_of_key, checksum_address
from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import COIN, DEV_KEYS
from cairn.domain.types import Address
from tests.support.json_server import Answer, JsonServer

CHAIN: dict[str, Any] = {
    "chainId": 1337,
    "engine": "embedded",
    "version": "0",
    "gasPrice": 1,
    "blockGasLimit": 210_000_000,
    "blockTime": 1.0,
    "maxDataBytes": 256,
    "head": {"blockHeight": 5, "hash": "0x" + "11" * 32, "timestamp": 1},
    "mempool": {"pending": 0, "queued": 0, "limit": 1},
}


STRANGER = "0x" + "10" * 20
USUAL_ADDRESSES = [address for address, _ in DEV_KEYS]
OWN = [address_of_key(bytes([number]) * 32) for number in (1, 2)]
"""The accounts of a dev chain with a mnemonic of its own."""


class FickleNode(JsonServer):
    """Tells of its chain truly once, and otherwise from then on."""

    def __init__(self) -> None:
        self.lie: dict[str, Any] = {}
        self.posts: list[Any] = []
        self.accounts: object = spelled(address for address, _ in DEV_KEYS)
        """The answer to eth_accounts; None means that there is no JSON-RPC."""
        self.balances: dict[str, int] = {}
        self._asked = 0
        super().__init__()

    def get(self, target: str) -> Answer:
        return 200, self.answer(target.partition("?")[0])

    def post(self, target: str, body: bytes) -> Answer:
        given = json.loads(body)
        if target == "/rpc":
            assert given["method"] == "eth_accounts"
            return 404 if self.accounts is None else 200, {"result": self.accounts}
        self.posts.append(given)
        return 200, {}

    def begin(self, lie: dict[str, Any]) -> None:
        self.lie, self._asked = lie, 0
        self.posts.clear()

    def answer(self, path: str) -> object:
        if path == "/health":
            return {"status": "alive"}
        if path == "/mempool":
            return []
        if path == "/chain":
            self._asked += 1
            return CHAIN if self._asked == 1 else CHAIN | self.lie
        address = path.rpartition("/")[2].lower()
        return {"address": address, "balance": self.balances.get(address, 10**30), "nonce": 7, "pendingNonce": 7}


def spelled(addresses: Iterable[Address]) -> list[str]:
    return ["0x" + address.hex() for address in addresses]


@pytest.fixture
def node() -> Iterator[FickleNode]:
    with FickleNode() as fickle:
        yield fickle


def prices(posts: list[Any]) -> list[int]:
    """The gas price of each submission, alone or together."""
    return [each["gasPrice"] for post in posts for each in (post if isinstance(post, list) else [post])]


@pytest.mark.parametrize("nonce", [[], ["--nonce", "7"]])
def test_a_node_that_changes_chain_or_price_gets_no_other_signature(node: FickleNode, nonce: list[str]) -> None:
    command = ["send", "dev0", "dev1", "1wei", "--yes", "--no-wait", "--node", node.url, *nonce]
    CliRunner().invoke(app, command)
    assert set(prices(node.posts)) == {1}
    for lie in ({"chainId": 1}, {"gasPrice": 10**18}):
        node.begin(lie)
        assert CliRunner().invoke(app, command).exit_code != 0
        # A signature for another chain would be good there; at the price that was agreed to, no harm is done.
        assert set(prices(node.posts)) <= (set() if "chainId" in lie else {1})


@pytest.mark.parametrize(
    ("prices", "told"),
    [
        ((None, None, None), "amount  7 wei, and a fee of 21000 wei"),
        (("3", None, None), "amount  7 wei, and a fee of 63000 wei"),
        ((None, "5", "1"), "amount  7 wei, and a fee of 42000 wei, 105000 wei at most"),
        ((None, "2", "9"), "amount  7 wei, and a fee of 42000 wei"),
    ],
)
def test_the_question_names_the_maximum_fee(
    prices: tuple[str | None, str | None, str | None],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    order = TransferOrder(Party(Address(bytes(20))), Party(Address(bytes(20))), 7, None, read_price(*prices))
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    with pytest.raises(CommandFailed, match="nothing was sent"):
        Sending("http://node", order, False)._confirm(msgspec.convert(CHAIN, Chain))
    assert told in capsys.readouterr().err.splitlines()


def test_the_question_names_the_reference_and_the_fee_that_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    party = Party(Address(bytes(20)))
    order = TransferOrder(party, party, 7, None, read_price(None, None, None), read_note("invoice 4711", None))
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    with pytest.raises(CommandFailed, match="nothing was sent"):
        Sending("http://node", order, False)._confirm(msgspec.convert(CHAIN, Chain))
    told = capsys.readouterr().err.splitlines()
    assert "amount  7 wei, and a fee of 21192 wei" in told
    assert 'for     "invoice 4711"' in told


@pytest.mark.parametrize(("amount", "is_told"), [("1", True), ("1wei", False), ("1coin", False), ("0", False)])
def test_an_amount_without_a_unit_is_told_to_be_wei_in_the_question_or_by_a_warning(
    amount: str, is_told: bool, node: FickleNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = "an amount without a unit is in wei: this is 1 wei, and 1coin is 1,000,000,000,000,000,000 wei"
    order = read_order(Keystore(Path("/nowhere")), "dev0", "dev1", amount, None, read_price(None, None, None), b"")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    with pytest.raises(CommandFailed, match="nothing was sent"):
        Sending("http://node", order, False)._confirm(msgspec.convert(CHAIN, Chain))
    assert (f"note    {unit}" in capsys.readouterr().err.splitlines()) is is_told
    command = ["send", "dev0", "dev1", amount, "--no-wait", "--node", node.url]
    assert (f"cairn: warning: {unit}" in CliRunner().invoke(app, command).stderr.splitlines()) is is_told
    assert "without a unit" not in CliRunner().invoke(app, [*command, "--json"]).stderr


@pytest.mark.parametrize(
    ("reference", "data", "refusal"),
    [
        ("a", "0x61", "--reference: give it, or --data, not both"),
        ("", None, "--reference: is empty: leave it out"),
        ("\x1b[31mred", None, "--reference: holds U+001B"),
        ("\u202eevil", None, "--reference: holds U+202E"),
        # What Python makes of an argument that is not UTF-8.
        ("\udcff", None, "--reference: holds U+DCFF"),
        (None, "61", "--data: '61' is not 0x and two hexadecimal digits for each byte"),
        (None, "0x6", "--data: '0x6' is not 0x"),
        (None, "0xzz", "--data: '0xzz' is not 0x"),
    ],
)
def test_a_reference_that_is_not_text_and_data_that_is_not_hex_are_refused(
    reference: str | None, data: str | None, refusal: str
) -> None:
    with pytest.raises(InvalidConfig) as refused:
        read_note(reference, data)
    assert refusal in str(refused.value)


USUAL = spelled(address for address, _ in DEV_KEYS)
OWN_FIRST = checksum_address(OWN[0])


@pytest.mark.parametrize(
    ("sender", "value", "balances", "advice"),
    [
        ("dev0", "5coins", [0], "; `cairn send dev1 dev0 6coins` gives it some"),
        ("dev3", "5coins", [10, 10, 10, 0], "; `cairn send dev0 dev3 6coins` gives it some"),
        # Six coins do not pay for the fee too.
        ("dev3", "5coins", [1, 6, 7, 0], "; `cairn send dev2 dev3 6coins` gives it some"),
        ("dev0", "20001coins", [1] * 10, ""),
    ],
)
def test_the_advised_giver_is_another_account_with_enough_coins(
    node: FickleNode, sender: str, value: str, balances: list[int], advice: str
) -> None:
    node.balances = {address: coins * COIN for address, coins in zip(USUAL, balances, strict=False)}
    result = CliRunner().invoke(app, ["send", sender, STRANGER, value, "--node", node.url])
    assert result.exit_code == 1
    assert result.stderr.endswith(f" plus a fee of 21000 wei{advice}\n")
    assert node.posts == []


@pytest.mark.parametrize(
    ("accounts", "advice"),
    [
        ([], ""),
        (None, ""),
        ("0x", ""),
        (["0x12"], ""),
        (USUAL[:1], ""),
        (USUAL[:2], "; `cairn send dev1 dev0 2coins` gives it some"),
        (
            spelled(OWN),
            f"; this chain has its own dev accounts (--mnemonic): its dev0 is {OWN_FIRST}, "
            "and `cairn keys import` with its mnemonic lets you pay from it",
        ),
    ],
)
def test_only_an_account_that_the_node_signs_for_is_advised_to_give(
    node: FickleNode, accounts: object, advice: str
) -> None:
    node.accounts, node.balances = accounts, {USUAL[0]: 0}
    result = CliRunner().invoke(app, ["send", "dev0", STRANGER, "1coin", "--node", node.url])
    spelled_sender = checksum_address(DEV_KEYS[0][0])
    assert (result.exit_code, result.stderr) == (
        1,
        f"cairn: dev0 ({spelled_sender}) has 0 wei but needs 1.000000000000021 coins: "
        f"1 coin plus a fee of 21000 wei{advice}\n",
    )


PUBLIC = "is public, and this is not a dev chain: anybody can spend what it gets"


@pytest.mark.parametrize("to", ["dev1", checksum_address(DEV_KEYS[1][0])])
@pytest.mark.parametrize("chain_id", [1337, 77])
@pytest.mark.parametrize(("accounts", "warning"), [(USUAL, ""), ([], PUBLIC), (None, PUBLIC)])
def test_a_dev_chain_is_recognised_by_eth_accounts_and_not_by_its_id(
    node: FickleNode, monkeypatch: pytest.MonkeyPatch, to: str, chain_id: int, accounts: object, warning: str
) -> None:
    monkeypatch.setitem(CHAIN, "chainId", chain_id)
    node.accounts = accounts
    result = CliRunner().invoke(app, ["send", "dev0", to, "1wei", "--no-wait", "--node", node.url])
    assert [line for line in result.stderr.splitlines() if "warning" in line] == (
        [f"cairn: warning: the key of {find_party(to, Keystore(Path('none')), 'TO')} {warning}"] if warning else []
    )
    assert node.posts


@pytest.mark.parametrize(("to", "is_named"), [("dev1", True), (checksum_address(DEV_KEYS[1][0]), False)])
def test_a_recipient_whose_name_is_another_account_s_there_is_warned_about(
    node: FickleNode, to: str, is_named: bool
) -> None:
    node.accounts = spelled(OWN)
    result = CliRunner().invoke(app, ["send", "dev0", to, "1wei", "--no-wait", "--node", node.url])
    warning = (
        f"cairn: warning: this chain has its own dev accounts (--mnemonic): its dev1 is {checksum_address(OWN[1])}, "
        f"and this pays {checksum_address(DEV_KEYS[1][0])}"
    )
    assert (warning in result.stderr.splitlines()) == is_named
    assert "is public" not in result.stderr
    assert node.posts


@pytest.mark.parametrize(("index", "shown"), [(0, 0), (1, 1), (5, 0)])
def test_the_account_of_the_same_name_or_the_first_one_is_described(index: int, shown: int) -> None:
    told = describe_other_account(Party(USUAL_ADDRESSES[index], f"dev{index}"), OWN)
    expected = f"this chain has its own dev accounts (--mnemonic): its dev{shown} is {checksum_address(OWN[shown])}"
    assert told == expected


@pytest.mark.parametrize("accounts", [USUAL_ADDRESSES, USUAL_ADDRESSES[:2], []])
def test_on_a_chain_with_the_usual_accounts_nothing_is_described(accounts: list[Address]) -> None:
    assert describe_other_account(Party(USUAL_ADDRESSES[5], "dev5"), accounts) is None


def test_an_account_that_was_not_named_as_a_dev_account_is_never_mistaken_for_one() -> None:
    assert describe_other_account(Party(USUAL_ADDRESSES[0]), OWN) is None
    assert describe_other_account(Party(USUAL_ADDRESSES[0], "alice"), OWN) is None
