"""Tables of transactions, with and without references."""

from pathlib import Path

import pytest

from cairn.cli.look.display import Names, print_pending
from cairn.cli.wallet.key_files import Keystore
from cairn.client.models import MempoolItem

HASH = "0x" + "11" * 32
LONG = "a very long reference, which a table does not show to its end"


def item(data: str | None = None, reference: str | None = None) -> MempoolItem:
    return MempoolItem(
        tx_hash=HASH, sender="0x" + "22" * 20, to="0x" + "33" * 20, value=1, nonce=0, gas=21_000, gas_price=1,
        received_at=0, data=data, reference=reference,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "reference", "shown"),
    [
        ("0x61", "invoice 4711", '  "invoice 4711"'),
        ("0x61", LONG, f'  "{LONG[:38]}…'),
        ("0x1b5b33316d", None, "  0x1b5b33316d"),
        # A node that lies.
        ("0x1b", "\x1b[31mred", r'  "\u001b[31mred"'),
    ],
)
def test_a_reference_is_the_last_column_cut_short_and_without_control_codes(
    data: str, reference: str | None, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_pending([item(data, reference), item()], Names(Keystore(tmp_path)))
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split()[-2:] == ["transaction", "reference"]
    assert first.endswith(HASH + shown)
    assert second.endswith(HASH)


def test_without_a_reference_there_is_no_such_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_pending([item()], Names(Keystore(tmp_path)))
    assert capsys.readouterr().out.splitlines()[0].split()[-1] == "transaction"
