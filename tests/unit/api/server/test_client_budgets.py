"""Places that clients share: whoever takes many leaves some to others."""

from cairn.api.server.client_budgets import ClientBudget


def test_each_finds_some_however_many_there_are() -> None:
    shares = ClientBudget(64)
    taken = []
    for client in ("a", "b", "c", "d"):
        count = 0
        while shares.take(client):
            count += 1
        taken.append(count)
    assert taken == [32, 16, 8, 4]


def test_many_at_once_are_as_many_as_one_by_one() -> None:
    for places in range(12):
        for at_once in range(1, 12):
            one_by_one, together = ClientBudget(places), ClientBudget(places)
            expected = all(one_by_one.take("a") for _ in range(at_once))
            assert together.take("a", at_once) is expected, (places, at_once)
            assert together.taken == (at_once if expected else 0)


def test_what_is_given_back_can_be_taken() -> None:
    shares = ClientBudget(4)
    assert [shares.take("a") for _ in range(3)] == [True, True, False]
    shares.give_back("a", 2)
    assert [shares.take("b") for _ in range(3)] == [True, True, False]
    assert shares.take("a")
    assert not shares.take("a")
