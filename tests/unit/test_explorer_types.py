from tools.explorer_types import TARGET, generate


def test_the_generated_types_are_up_to_date() -> None:
    assert generate() == TARGET.read_text(), "run `make generate`"
