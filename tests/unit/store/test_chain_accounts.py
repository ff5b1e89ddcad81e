from cairn.domain.types import Account
from cairn.store.chain import Known, RecentAccounts
from tests.support.transfers import address


def known(number: int) -> Known:
    return Known(Account(number, 0), number)


def test_what_was_kept_is_found_and_replaced() -> None:
    recent = RecentAccounts(10)
    assert recent.find(address(1)) is None
    recent.keep(address(1), known(1))
    recent.keep_all({address(1): known(2), address(2): known(3)})
    assert recent.find(address(1)) == known(2)
    assert recent.find(address(2)) == known(3)


def test_it_is_bounded_and_keeps_what_is_used() -> None:
    recent = RecentAccounts(10)
    for number in range(1000):
        recent.keep(address(number), known(number))
        assert recent.find(address(0)) == known(0)
        assert len(recent._young) + len(recent._old) <= 22
    assert recent.find(address(999)) == known(999)
    assert recent.find(address(500)) is None


def test_a_newer_value_is_never_hidden_by_an_older_one() -> None:
    recent = RecentAccounts(2)
    recent.keep(address(1), known(1))
    recent.keep_all({address(number): known(number) for number in (2, 3)})
    recent.keep(address(1), known(9))
    assert recent.find(address(1)) == known(9)
