from cairn.domain.types import Account, Address
from cairn.store.chain import AccountCache, CachedAccount
from tests.support.transfers import address


def known(number: int) -> CachedAccount:
    return CachedAccount(Account(number, 0), number)


class Loading:
    """Counts what is not remembered."""

    def __init__(self) -> None:
        self.loaded: list[Address] = []

    def __call__(self, address: Address) -> CachedAccount:
        self.loaded.append(address)
        return known(0)


def test_a_kept_account_is_found_and_replaced() -> None:
    load = Loading()
    recent = AccountCache(10, load)
    recent.keep({address(1): known(1)})
    recent.keep({address(1): known(2), address(2): known(3)})
    assert recent[address(1)] == known(2)
    assert recent[address(2)] == known(3)
    assert load.loaded == []


def test_an_account_that_is_not_cached_is_loaded_once() -> None:
    load = Loading()
    recent = AccountCache(10, load)
    assert recent[address(1)] == recent[address(1)] == known(0)
    assert load.loaded == [address(1)]


def test_the_cache_of_accounts_is_bounded_and_keeps_those_that_are_used() -> None:
    load = Loading()
    recent = AccountCache(10, load)
    recent.keep({address(0): known(7)})
    for number in range(1, 1000):
        recent.keep({address(number): known(number)})
        assert recent[address(0)] == known(7)
        assert len(recent) + len(recent._old) <= 22
    assert recent[address(999)] == known(999)
    assert load.loaded == []
    assert recent[address(500)] == known(0)
    assert load.loaded == [address(500)]


def test_a_newer_value_is_never_hidden_by_an_older_one() -> None:
    recent = AccountCache(2, Loading())
    recent.keep({address(1): known(1)})
    recent.keep({address(number): known(number) for number in (2, 3)})
    recent.keep({address(1): known(9)})
    assert recent[address(1)] == known(9)
