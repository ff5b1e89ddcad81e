"""Chains on which the published keys of the dev accounts hold or decide something."""

import msgspec
import pytest

from cairn.cli.node.dev_chain import MOST_ACCOUNTS, build_dev_chain
from cairn.cli.node.public_keys import DEV_NAMES, describe_public_keys, warn_of_public_keys
from cairn.domain.genesis import DEV_KEYS, DEV_MNEMONIC, GWEI, Genesis, dev_genesis
from cairn.domain.governance import Admins, ValidatorRecord
from cairn.domain.types import ZERO_ADDRESS, Address

OWN = Address(b"\xab" * 20)
DEV = [address for address, _ in DEV_KEYS]
TENTH = Address(bytes.fromhex("bcd4042de499d14e55001ccbb24a551f3b954096"))


def genesis(alloc: dict[Address, int], **others: object) -> Genesis:
    return msgspec.structs.replace(dev_genesis(), alloc=alloc, **others)


@pytest.mark.parametrize("proposer", [OWN, ZERO_ADDRESS])
def test_a_chain_of_ones_own_accounts_is_not_warned_of(proposer: Address, capsys: pytest.CaptureFixture[str]) -> None:
    own = genesis({OWN: 5, DEV[3]: 0}, admins=Admins(1, (OWN,)))
    assert describe_public_keys(own, proposer) is None
    warn_of_public_keys(own, proposer)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("chain", "proposer", "told"),
    [
        (genesis({OWN: 1, DEV[1]: 1, DEV[0]: 1}), OWN, "they hold coins (dev0, dev1)"),
        (genesis({TENTH: 1, DEV[2]: 1}), OWN, "they hold coins (dev2, dev10)"),
        (genesis({OWN: 1}), DEV[2], "they receive fees (dev2)"),
        (genesis({OWN: 1}, admins=Admins(1, (OWN, DEV[4]))), OWN, "they administer the network (dev4)"),
        (
            genesis({OWN: 1, DEV[1]: 1}, validators=(ValidatorRecord(b"k" * 32, 1, DEV[5], "a"),)),
            ZERO_ADDRESS,
            "they hold coins (dev1) and receive fees (dev5)",
        ),
    ],
)
def test_what_public_keys_may_do_is_named(
    chain: Genesis, proposer: Address, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_of_public_keys(chain, proposer)
    printed = capsys.readouterr().err
    assert told in printed
    assert "Use it for tests only" in printed


def test_every_account_that_a_dev_chain_may_publish_is_known() -> None:
    chain = build_dev_chain(1, MOST_ACCOUNTS, "1", DEV_MNEMONIC, GWEI)
    assert {address: f"dev{index}" for index, address in enumerate(chain.keys)} == DEV_NAMES
