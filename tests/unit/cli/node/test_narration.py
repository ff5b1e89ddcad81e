"""What a dev chain tells: each block and transaction while somebody can read that, and numbers when nobody can."""

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest

from cairn.cli.node import narration
from cairn.cli.node.dev import format_of
from cairn.cli.node.dev_chain import DevChainSpec, build_dev_chain
from cairn.cli.node.narration import (
    INTERVAL_S,
    MOST_THINGS,
    MOST_TXS,
    Gate,
    Interval,
    Narrator,
    SeenDrop,
    SeenQueued,
    SeenRefusal,
    SeenRevert,
    TextFormat,
    json_lines,
)
from cairn.config import Settings
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC, dev_genesis, genesis_outcome
from cairn.domain.transactions import sign_draft
from cairn.domain.types import TRANSFER_GAS, Address, Draft, SealedBlock, Tx, TxHash
from tests.support.node_process import wait_until
from tests.support.pace import PATIENCE_S
from tests.support.pipes import fill_pipe

STRANGER = Address(bytes.fromhex("c0ffee254729296a45a3885639ac7e10f9d54979"))
HASH = TxHash(b"\xab" * 32)
GENESIS = genesis_outcome(dev_genesis()).block
USUAL = dict(DEV_KEYS)


def payment(to: Address, value: int) -> Tx:
    sender, key = DEV_KEYS[0]
    return sign_draft(Draft(sender, to, value, TRANSFER_GAS, 10**9, 0), key, chain_id=1337)


PAYMENT = payment(DEV_KEYS[1][0], 10**18)


def block_of(txs: int, height: int = 7) -> SealedBlock:
    header = msgspec.structs.replace(GENESIS.header, height=height, timestamp=1_800_000_000)
    return msgspec.structs.replace(GENESIS, header=header, txs=(PAYMENT,) * txs)


def interval_with(*blocks: SealedBlock) -> Interval:
    interval = Interval()
    for block in blocks:
        interval.add_block(block)
    return interval


def text_of(interval: Interval) -> list[str]:
    """Without the time in front."""
    return [re.sub(r"^\d\d:\d\d:\d\d  ", "", line) for line in TextFormat(False, USUAL)(interval)]


def test_a_block_is_printed_with_each_of_its_transfers() -> None:
    coffee = payment(STRANGER, 7)
    block = msgspec.structs.replace(block_of(0), txs=(PAYMENT, coffee))
    assert text_of(interval_with(block, block_of(0, height=8))) == [
        "block 7  2 transactions",
        f"  dev0 → dev1  1 coin  0x{PAYMENT.hash.hex()}",
        f"  dev0 → 0xc0ff…4979  7 wei  0x{coffee.hash.hex()}",
        "block 8  0 transactions",
    ]


def test_a_reference_is_printed_last_and_data_that_is_no_text_in_hex() -> None:
    said, dark = (msgspec.structs.replace(PAYMENT, data=data) for data in (b"invoice 4711", b"\x1b[31m"))
    interval = interval_with(msgspec.structs.replace(block_of(0), txs=(said, dark)))
    assert text_of(interval)[1:] == [
        f'  dev0 → dev1  1 coin  0x{PAYMENT.hash.hex()}  "invoice 4711"',
        f"  dev0 → dev1  1 coin  0x{PAYMENT.hash.hex()}  0x1b5b33316d",
    ]
    _, told, hidden = map(json.loads, json_lines(interval))
    assert (told["data"], told["reference"]) == ("0x696e766f6963652034373131", "invoice 4711")
    assert (hidden["data"], "reference" in hidden) == ("0x1b5b33316d", False)


def told_on(chain: DevChainSpec, tx: Tx) -> str:
    """What `cairn dev` tells of the transfer, without the time in front."""
    block = msgspec.structs.replace(block_of(0), txs=(tx,))
    _, told = format_of(Settings(), chain)(interval_with(block))
    return told[10:]


def test_accounts_are_named_by_their_order_on_this_chain() -> None:
    chain = build_dev_chain(1337, 12, "1", DEV_MNEMONIC, 1)
    to_last = payment(list(chain.keys)[-1], 10**18)
    assert told_on(chain, to_last) == f"  dev0 → dev11  1 coin  0x{to_last.hash.hex()}"

    other_words = build_dev_chain(1337, 1, "1", "abandon " * 11 + "about", 1)
    to_it = payment(next(iter(other_words.keys)), 10**18)
    assert told_on(other_words, to_it) == f"  0xf39F…2266 → dev0  1 coin  0x{to_it.hash.hex()}"


def test_drops_and_reverts_are_printed() -> None:
    interval = Interval()
    interval.add(SeenDrop(HASH, "replaced"))
    interval.add(SeenRevert(4))
    assert text_of(interval) == [f"  dropped: replaced  0x{HASH.hex()}", "reverted to block 4"]


def test_a_queued_transaction_and_a_refusal_say_why() -> None:
    interval = Interval()
    interval.add(SeenQueued(PAYMENT, 3))
    interval.add(SeenRefusal("NONCE_TOO_LOW", "nonce 0 is used", PAYMENT))
    interval.add(SeenRefusal("INVALID_SIGNATURE", "it is \x1b[31mnot\n valid", None))
    transfer = f"dev0 → dev1  1 coin  0x{PAYMENT.hash.hex()}"
    assert text_of(interval) == [
        f"  queued: waits for nonce 3  {transfer}",
        f"  refused: NONCE_TOO_LOW  nonce 0 is used  {transfer}",
        r"  refused: INVALID_SIGNATURE  it is \u001b[31mnot\u000a valid",
    ]
    queued, refused, unreadable = map(json.loads, json_lines(interval))
    assert (queued["event"], queued["nonce"], queued["queuedReason"]) == ("txQueued", 0, "waits for nonce 3")
    assert (refused["event"], refused["code"], refused["value"]) == ("txRefused", "NONCE_TOO_LOW", 10**18)
    assert set(unreadable) == {"event", "code", "detail"}


def test_colour_is_only_for_terminals() -> None:
    interval = interval_with(block_of(1))
    assert not any("\x1b" in line for line in TextFormat(False, USUAL)(interval))
    coloured = list(TextFormat(True, USUAL)(interval))
    assert all("\x1b[" in line for line in coloured)
    assert [re.sub(r"\x1b\[\d+m", "", line)[10:] for line in coloured] == text_of(interval)


def test_a_block_with_too_many_transfers_is_one_line() -> None:
    told = text_of(interval_with(block_of(1), block_of(MOST_TXS), block_of(MOST_TXS - 1)))
    assert len(told) == 3 + 1 + MOST_TXS - 1
    assert told[2:4] == [f"block 7  {MOST_TXS} transactions", f"block 7  {MOST_TXS - 1} transactions"]


def test_more_than_an_interval_holds_is_counted() -> None:
    interval = interval_with(*[block_of(0)] * MOST_THINGS, block_of(240), block_of(1))
    interval.add(SeenDrop(HASH, "evicted"))
    interval.add(SeenRevert(1))
    interval.add(SeenRefusal("NONCE_TOO_LOW", "used", None))
    assert text_of(interval)[MOST_THINGS:] == ["… 2 blocks, 241 transactions, 1 drop, 1 revert, 1 refusal"]
    last = json.loads(list(json_lines(interval))[-1])
    assert last == {"event": "skipped", "blocks": 2, "transactions": 241, "drops": 1, "reverts": 1, "refusals": 1}


def test_json_lines_have_the_field_names_of_the_api() -> None:
    interval = interval_with(msgspec.structs.replace(block_of(0), txs=(payment(STRANGER, 10**22),)))
    interval.add(SeenDrop(HASH, "expired"))
    interval.add(SeenRevert(4))
    block, tx, drop, revert = map(json.loads, json_lines(interval))
    assert block == {
        "event": "newBlock",
        "blockHeight": 7,
        "hash": "0x" + GENESIS.hash.hex(),
        "timestamp": 1_800_000_000,
        "transactions": 1,
    }
    assert (tx["event"], tx["blockHeight"], tx["value"], tx["fee"]) == ("txConfirmed", 7, 10**22, 21_000 * 10**9)
    assert (tx["from"], tx["to"]) == ("0x" + DEV_KEYS[0][0].hex(), "0x" + STRANGER.hex())
    assert drop == {"event": "txDropped", "txHash": "0x" + HASH.hex(), "reason": "expired"}
    assert revert == {"event": "reverted", "blockHeight": 4}


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        with suppress(OSError):
            os.close(end)


def test_nothing_is_printed_before_the_gate_opens(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    gate = Gate()
    with Narrator(json_lines, gate, writer) as narrator:
        narrator.saw_block(block_of(0))
        os.write(writer, b"the banner\n")
        gate.open()
        with os.fdopen(reader, closefd=False) as lines:
            assert lines.readline() == "the banner\n"
            assert json.loads(lines.readline())["blockHeight"] == 7


def test_what_happens_just_before_the_end_is_printed(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narration, "FLUSH_TIMEOUT_S", PATIENCE_S)
    reader, writer = pipe
    gate = Gate()
    gate.open()
    with Narrator(json_lines, gate, writer) as narrator:
        narrator.saw_drop(HASH, "evicted")
        narrator.saw_revert(3)
    os.close(writer)
    with os.fdopen(reader, closefd=False) as lines:
        assert [json.loads(line)["event"] for line in lines] == ["txDropped", "reverted"]


def test_a_reader_that_stops_reading_delays_nobody(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told what fits, and the number of the rest."""
    monkeypatch.setattr(narration, "INTERVAL_S", 0)
    _, writer = pipe
    fill_pipe(writer)
    os.set_blocking(writer, True)
    gate = Gate()
    gate.open()
    narrator = Narrator(json_lines, gate, writer)
    with narrator:
        # The first is stuck in the pipe; what comes after it waits, up to a bound.
        narrator.saw_block(block_of(0, height=1))
        wait_until(lambda: not narrator._interval.seen, PATIENCE_S, "the first to be taken")
        for height in range(2, 1_002):
            narrator.saw_block(block_of(3, height))
        assert len(narrator._interval.seen) == MOST_THINGS
        assert narrator._interval.skipped == {"blocks": 1_000 - MOST_THINGS, "transactions": 3 * (1_000 - MOST_THINGS)}


def test_a_full_non_blocking_pipe_is_waited_for(pipe: tuple[int, int]) -> None:
    """As of a terminal that is shared with a program which has made it non-blocking."""
    reader, writer = pipe
    filled = fill_pipe(writer)
    gate = Gate()
    gate.open()
    with Narrator(json_lines, gate, writer) as narrator:
        narrator.saw_block(block_of(0, height=1))
        wait_until(lambda: not narrator._interval.seen, PATIENCE_S, "the first to be taken")
        # Long enough to have tried.
        time.sleep(INTERVAL_S)
        assert narrator._thread.is_alive()
        with os.fdopen(reader, closefd=False) as lines:
            assert lines.read(filled) == "#" * filled
            assert json.loads(lines.readline())["blockHeight"] == 1
            narrator.saw_block(block_of(0, height=2))
            assert json.loads(lines.readline())["blockHeight"] == 2


def test_a_closed_pipe_ends_only_the_narrator(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(reader)
    gate = Gate()
    gate.open()
    with Narrator(json_lines, gate, writer) as narrator:
        narrator.saw_block(block_of(0))
        wait_until(lambda: not narrator._thread.is_alive(), PATIENCE_S, "the end of the telling")
        narrator.saw_block(block_of(0))
