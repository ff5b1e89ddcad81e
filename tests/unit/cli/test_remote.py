"""The client's errors as those of the command line, with exit code and advice; and what is said of missing nonces."""

from typing import get_args

import msgspec
import pytest

from cairn.cli.remote import connect, describe_missing, describe_not_held, explained_errors, gaps_between
from cairn.cli.report import CommandFailed, ExitCode
from cairn.client import errors
from cairn.client.models import PendingTransaction
from cairn.domain.errors import InvalidConfig, received_error
from cairn.domain.types import DropReason

URL = "http://127.0.0.1:8645"
TX_HASH = "0x" + "ab" * 32


def of_payment(error: errors.ClientError) -> errors.ClientError:
    """The error of a payment that may have been made all the same."""
    error.tx_hash = TX_HASH
    return error


SHOWN = f"`cairn tx {TX_HASH}` shows it"


@pytest.mark.parametrize(
    ("error", "exit_code", "code", "says"),
    [
        (errors.NodeUnreachable("no answer", was_sent=False), ExitCode.UNREACHABLE, "NODE_UNREACHABLE", "`cairn dev`"),
        (
            of_payment(errors.NodeUnreachable("no answer", was_sent=True)),
            ExitCode.UNREACHABLE,
            "NODE_UNREACHABLE",
            SHOWN,
        ),
        (of_payment(errors.UnexpectedAnswer("a web page")), ExitCode.UNREACHABLE, "UNREACHABLE", SHOWN),
        (of_payment(errors.StoreUnavailable("no disk")), ExitCode.UNREACHABLE, "STORE_UNAVAILABLE", SHOWN),
        (errors.OutcomeUnknown(TX_HASH), ExitCode.UNREACHABLE, "OUTCOME_UNKNOWN", f"`cairn tx {TX_HASH}` at a node"),
        (errors.UnexpectedAnswer("a web page"), ExitCode.UNREACHABLE, "UNREACHABLE", "check --node"),
        (errors.ConfirmationTimeout(TX_HASH, 5), ExitCode.TIMED_OUT, "TIMED_OUT", "after 5 s; the node keeps it"),
        (errors.TxNotFound("unknown"), ExitCode.NOT_FOUND, "TX_NOT_FOUND", "unknown; check the hash"),
        (errors.TxDropped("evicted"), ExitCode.NOT_FOUND, "TX_DROPPED", "evicted; it will not be confirmed"),
        (errors.BlockNotFound("no block 9"), ExitCode.NOT_FOUND, "BLOCK_NOT_FOUND", "no block 9"),
        (errors.InsufficientFunds("too little"), ExitCode.REFUSED, "INSUFFICIENT_FUNDS", "too little; `cairn account`"),
        (errors.InvalidSignature("not yours"), ExitCode.REFUSED, "INVALID_SIGNATURE", "not yours"),
        (errors.MempoolFull("full"), ExitCode.UNREACHABLE, "MEMPOOL_FULL", "full; try again later"),
        (errors.Internal("it failed"), ExitCode.UNREACHABLE, "INTERNAL", "it failed"),
        (errors.InvalidProof("no proof"), ExitCode.REFUSED, "REFUSED", "no proof"),
    ],
)
def test_each_error_has_its_exit_code_and_says_what_to_do(
    error: errors.ClientError, exit_code: ExitCode, code: str, says: str
) -> None:
    with pytest.raises(CommandFailed) as failed, explained_errors(URL):
        raise error
    assert (failed.value.exit_code, failed.value.code) == (exit_code, code)
    assert says in str(failed.value)


def test_an_unknown_block_is_reported_without_advice() -> None:
    with pytest.raises(CommandFailed) as failed, explained_errors(URL):
        raise errors.BlockNotFound("there is no block of that height yet; the latest is 1")
    assert str(failed.value) == "there is no block of that height yet; the latest is 1"


@pytest.mark.parametrize("reason", get_args(DropReason))
def test_the_advice_for_a_dropped_transaction_depends_on_the_reason(reason: DropReason) -> None:
    with pytest.raises(CommandFailed) as failed, explained_errors(URL):
        raise errors.TxDropped(reason)
    assert str(failed.value).startswith(
        f"the transaction was dropped from the mempool: {reason}; it will not be confirmed"
    )
    assert ("unless it is sent again" in str(failed.value)) == (reason in ("evicted", "expired"))
    assert ("another transaction with the same nonce" in str(failed.value)) == (reason in ("replaced", "nonce used"))
    assert ("sign a new one with the next nonce" in str(failed.value)) == (reason == "nonce used")


@pytest.mark.parametrize("error", [errors.InvalidHash, errors.InvalidField, errors.InvalidQuery])
def test_an_argument_that_the_node_refuses_is_a_usage_error(error: type[errors.ApiError]) -> None:
    with pytest.raises(InvalidConfig, match="wrong"), explained_errors(URL):
        raise received_error(error.code, "wrong")


@pytest.mark.parametrize("url", ["localhost:8645", "ftp://127.0.0.1", ""])
def test_a_node_url_without_scheme_or_host_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match="expected a URL, such as http://127.0.0.1:8645"):
        connect(url)


@pytest.mark.parametrize(
    ("first", "nonce", "held", "told"),
    [
        (7, 8, [], "nonce 7 is missing"),
        (0, 40, [], "nonces 0 to 39 are missing"),
        (2, 7, [4, 0, 1, 9], "nonces 2 to 3, 5 to 6 are missing"),
        (2, 5, [2, 3], "nonce 4 is missing"),
        (2, 6, [3, 5], "nonces 2, 4 are missing"),
        (0, 10**30, [1], f"nonces 0, 2 to {10**30 - 1} are missing"),
    ],
)
def test_missing_nonces_are_described_as_ranges(first: int, nonce: int, held: list[int], told: str) -> None:
    assert describe_missing(gaps_between(first, nonce, held)) == told


def test_no_nonce_is_missing_when_all_earlier_ones_are_in_the_mempool() -> None:
    assert gaps_between(2, 5, [2, 3, 4]) == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"notHeld": "replaced", "replacedBy": "0x12"}, "replaced here by 0x12: another node may still confirm it"),
        ({"notHeld": "evicted"}, "evicted here: another node may still confirm it"),
    ],
)
def test_a_transaction_not_held_is_described_with_reason_and_replacement(fields: dict[str, str], told: str) -> None:
    own = {"txHash": "0x", "from": "0x", "to": "0x", "value": 1, "nonce": 0, "gas": 21_000, "gasPrice": 1}
    assert describe_not_held(msgspec.convert({"status": "pending"} | own | fields, PendingTransaction)) == told
