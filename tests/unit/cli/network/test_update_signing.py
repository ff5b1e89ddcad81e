"""What an update is said to do, and what is warned of: by the arithmetic of CometBFT's votes."""

import pytest

from cairn.cli.network.update_signing import dangers_of, fields_of, summary, tolerated
from cairn.domain.governance import Admins, AdminsUpdate, Before, ChainIdentity, ValidatorRecord, ValidatorUpdate
from cairn.domain.types import Address

CHAIN = ChainIdentity(1337, bytes(32))
NAMESAKE = "called node1, too"
WAITS = "Until this validator's node runs and has caught up"
ALONE = "If this validator alone stops"
NONE = "none may then fail"


def update(power: int, before: Before, name: str = "node1") -> ValidatorUpdate:
    return ValidatorUpdate(7, ValidatorRecord(b"\x01" * 32, power, Address(b"\x02" * 20), name), before)


def admins(threshold: int, count: int) -> Admins:
    return Admins(threshold, tuple(Address(bytes([number]) * 20) for number in range(count)))


@pytest.mark.parametrize("total", range(1, 40))
def test_the_tolerated_power_leaves_more_than_two_thirds(total: int) -> None:
    most = tolerated(total)
    assert 3 * (total - most) > 2 * total
    assert 3 * (total - most - 1) <= 2 * total


@pytest.mark.parametrize(
    ("power", "before", "expected"),
    [
        (10, Before(0, 40, 4, 0), []),
        (10, Before(0, 40, 4, 1), [NAMESAKE]),
        (20, Before(10, 40, 4, 1), [NAMESAKE, ALONE]),
        (11, Before(10, 100, 10, 1), [NAMESAKE]),
        (0, Before(10, 100, 10, 1), [NAMESAKE]),
        (10, Before(0, 10, 1, 0), [WAITS]),
        (30, Before(10, 40, 4, 0), [ALONE]),
        # It had as much power before, and could stop the network then too.
        (30, Before(30, 60, 4, 0), []),
        (0, Before(10, 50, 5, 0), []),
        (0, Before(10, 40, 4, 0), [NONE]),
        (0, Before(10, 30, 3, 0), []),
    ],
)
def test_an_update_that_may_stop_the_network_has_a_warning(power: int, before: Before, expected: list[str]) -> None:
    told = dangers_of(update(power, before))
    assert len(told) == len(expected)
    for warning, text in zip(told, expected, strict=True):
        assert text in warning


@pytest.mark.parametrize(
    ("power", "before", "said", "after"),
    [
        (10, Before(0, 40, 4, 0), "10; it is a new validator", "5; 4 before"),
        (20, Before(10, 40, 4, 0), "20; 10 before", "4; 4 before"),
        (0, Before(10, 40, 4, 0), "10 before; it is removed", "3; 4 before"),
    ],
)
def test_power_and_number_are_shown_before_and_after(power: int, before: Before, said: str, after: str) -> None:
    fields = dict(fields_of(CHAIN, update(power, before)))
    assert (fields["power"], fields["validators"]) == (said, after)
    assert fields["all power"] == f"{40 - before.power + power}; 40 before"
    assert dict(fields_of(CHAIN, update(power, before, name="")))["name"] == "none"


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (admins(2, 3), admins(1, 2), []),
        (admins(3, 3), admins(2, 3), ["All must sign"]),
        (admins(1, 3), admins(2, 3), ["Each of them alone"]),
        (admins(1, 1), admins(2, 3), ["All must sign", "Each of them alone"]),
        (admins(1, 2), admins(1, 3), []),
    ],
)
def test_an_update_that_may_lock_administrators_out_has_a_warning(
    new: Admins, old: Admins, expected: list[str]
) -> None:
    told = dangers_of(AdminsUpdate(0, new, old))
    assert [text for text in expected if not any(text in warning for warning in told)] == []
    assert len(told) == len(expected)


def test_a_summary_names_what_changed() -> None:
    assert summary(update(5, Before(0, 0, 0, 0))) == "node1 with power 5"
    assert summary(update(0, Before(0, 0, 0, 0))) == "node1 removed"
    assert summary(update(5, Before(0, 0, 0, 0), name="")).startswith("AQEB")
    assert summary(AdminsUpdate(0, admins(2, 3), admins(1, 1))) == "2 of 3 administrators must sign"
