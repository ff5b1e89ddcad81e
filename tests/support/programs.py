"""Programs that the tests use and that come from the system: `make programs` looks for them."""

import shutil

import pytest


def need_program(name: str, *others: str) -> str:
    """The first of these that is here. Skips the test where there is none, which CI takes for a failure."""
    found = next(filter(None, map(shutil.which, (name, *others))), None)
    if found is None:
        pytest.skip(f"no {name} here: run `make programs`")
    return found
