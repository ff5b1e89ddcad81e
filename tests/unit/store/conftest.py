"""A real chain on a real disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cairn.store.chain import ChainStore
from tests.support.blocks import store_genesis


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def chain(directory: Path) -> Iterator[ChainStore]:
    store = ChainStore.open(directory, store_genesis())
    yield store
    store.close()
