"""Where a forwarder begins, and the addresses that it is given."""

from pathlib import Path

import pytest

from cairn.cli.forward.start import read_addresses
from cairn.domain.errors import InvalidConfig

ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def file_with(directory: Path, text: str) -> Path:
    path = directory / "addresses"
    path.write_text(text)
    return path


def test_addresses_are_read_without_comments_and_empty_lines(tmp_path: Path) -> None:
    [address] = read_addresses(file_with(tmp_path, f"# the shop\n\n  {ADDRESS}  # till 1\n"))
    assert address.hex() == ADDRESS[2:].lower()


@pytest.mark.parametrize("line", ["0x7099", ADDRESS.swapcase().replace("0X", "0x"), "dev1", f"{ADDRESS} {ADDRESS}"])
def test_a_line_that_is_no_address_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidConfig, match="addresses, line 2"):
        read_addresses(file_with(tmp_path, f"{ADDRESS}\n{line}\n"))


@pytest.mark.parametrize("text", ["", "# none\n"])
def test_a_file_without_addresses_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfig, match="no address"):
        read_addresses(file_with(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot read .*nowhere"):
        read_addresses(tmp_path / "nowhere")
