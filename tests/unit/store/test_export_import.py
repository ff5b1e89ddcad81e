"""An exported chain gives the same chain again, and nothing else is taken for it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cairn.domain.errors import AnotherVersionNeeded, InvalidConfig
from cairn.domain.genesis import dev_genesis
from cairn.domain.transactions import encode_record
from cairn.store import keys
from cairn.store.chain import ChainStore
from cairn.store.chain_export import export_chain
from cairn.store.chain_import import ExportReader, import_chain
from cairn.store.directory import Syncs, journal_path
from cairn.store.journal import Journal
from cairn.store.verification.verification import verify_directory
from tests.support.core_fixtures import signed
from tests.support.damaged_homes import make_blocks
from tests.support.disk import database_of
from tests.support.verified_homes import VerifiedHome, lone_home, network_home, pruned_home, restored_home

MAKERS: dict[str, Callable[[Path], VerifiedHome]] = {"lone": lone_home, "network": network_home}
LATE_MAKERS: dict[str, Callable[[Path], VerifiedHome]] = {"pruned": pruned_home, "restored": restored_home}
Content = dict[str, list[tuple[bytes, bytes]]]


@pytest.fixture(scope="module", params=MAKERS)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> VerifiedHome:
    return MAKERS[request.param](tmp_path_factory.mktemp(request.param) / "data")


@pytest.fixture
def lone(tmp_path: Path) -> VerifiedHome:
    return lone_home(tmp_path / "lone" / "data")


@pytest.fixture(autouse=True)
def synced() -> Iterator[None]:
    yield
    assert not Syncs.are_left_out, "an import must not keep others from syncing"


def exported(home: VerifiedHome) -> list[bytes]:
    lines: list[bytes] = []
    export_chain(home.directory, home.genesis, lines.append, "test")
    return lines


def content_of(directory: Path, home: VerifiedHome) -> Content:
    chain = ChainStore.open(directory, home.genesis)
    try:
        content = {family: list(database_of(chain).scan(family)) for family in keys.FAMILIES}
    finally:
        chain.close()
    content[keys.META] = [entry for entry in content[keys.META] if entry[0] != keys.PROBE_KEY]
    return content


def pending_of(directory: Path, home: VerifiedHome) -> list[bytes]:
    chain = ChainStore.open(directory, home.genesis)
    journal = Journal.open(journal_path(directory), chain.watermark)
    journal.close()
    chain.close()
    return [entry.tx.hash for entry in journal.recovered]


def test_an_import_has_every_record_of_the_exported_chain(home: VerifiedHome, tmp_path: Path) -> None:
    done = import_chain(ExportReader(exported(home)), tmp_path / "data")
    assert content_of(tmp_path / "data", home) == content_of(home.directory, home)
    assert verify_directory(tmp_path / "data", home.genesis).findings == []
    assert pending_of(tmp_path / "data", home) == pending_of(home.directory, home)
    assert done.resumed_at == 0


@pytest.mark.parametrize("name", LATE_MAKERS)
def test_a_chain_without_its_oldest_blocks_goes_on_with_the_same_head(name: str, tmp_path: Path) -> None:
    home = LATE_MAKERS[name](tmp_path / "given" / "data")
    done = import_chain(ExportReader(exported(home)), tmp_path / "data")
    before, after = (verify_directory(place, home.genesis) for place in (home.directory, tmp_path / "data"))
    assert after.findings == []
    assert (after.head_hash, after.oldest, after.accounts) == (before.head_hash, before.oldest, before.accounts)
    assert (done.oldest, done.pending) == (before.oldest, before.pending)
    found = ChainStore.open(tmp_path / "data", home.genesis)
    assert found.head_hash == before.head_hash
    found.close()


def test_the_export_of_an_import_is_the_same_file(home: VerifiedHome, tmp_path: Path) -> None:
    lines = exported(home)
    import_chain(ExportReader(lines), tmp_path / "data")
    again = exported(VerifiedHome(tmp_path / "data", home.genesis))
    assert again == lines


def test_an_import_knows_since_which_height_which_rules_are_valid(tmp_path: Path) -> None:
    home = network_home(tmp_path / "given")
    assert "rules" not in json.loads(exported(home)[0])
    # The last is to begin with a block that is not made yet.
    (home.directory / "RULES").write_text("1 from block 0\n2 from block 3\n3 from block 1000\n")
    import_chain(ExportReader(exported(home)), tmp_path / "data")
    assert (tmp_path / "data" / "RULES").read_text() == "1 from block 0\n2 from block 3\n"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("2 from block 0\n3 from block 4\n", "from 4 on were made by rules of version 3; this program has version 2"),
        ("3 from block 0\n4 from block 4\n", "from 0 on were made by rules of version 3"),
    ],
)
def test_blocks_by_rules_of_a_newer_version_are_refused(tmp_path: Path, rules: str, why: str) -> None:
    home = network_home(tmp_path / "given")
    (home.directory / "RULES").write_text(rules)
    with pytest.raises(AnotherVersionNeeded, match=why):
        ExportReader(exported(home))


@pytest.mark.parametrize(
    "rules", [[(2, 1)], [(0, 0), (1, 5), (2, 5)], [(0, 0), (1, 5), (2, 4)], [(2, 0), (1, 5)], [(1, 0), (2, 10**6)]]
)
def test_an_export_whose_rules_are_in_no_order_is_refused(lone: VerifiedHome, rules: list[tuple[int, int]]) -> None:
    first = json.loads(exported(lone)[0])
    first["rules"] = [{"version": version, "height": height} for version, height in rules]
    with pytest.raises(InvalidConfig, match="line 1: it does not say by which rules"):
        ExportReader([json.dumps(first).encode() + b"\n"])


def test_an_interrupted_import_goes_on_where_it_was(home: VerifiedHome, tmp_path: Path) -> None:
    lines = exported(home)
    for cut in (2, 4, len(lines) - 1):
        with pytest.raises(InvalidConfig, match="cut off"):
            import_chain(ExportReader(lines[:cut]), tmp_path / "data")
    done = import_chain(ExportReader(lines), tmp_path / "data")
    assert done.resumed_at > 0
    assert content_of(tmp_path / "data", home) == content_of(home.directory, home)
    assert pending_of(tmp_path / "data", home) == pending_of(home.directory, home)


def test_a_running_node_is_exported_up_to_a_block_on_disk(tmp_path: Path) -> None:
    home = VerifiedHome(tmp_path / "given", dev_genesis())
    chain = ChainStore.open(home.directory, home.genesis)
    Journal.open(journal_path(home.directory), chain.watermark).close()
    make_blocks(chain, 0, 4)
    lines: list[bytes] = []

    def write(line: bytes) -> None:
        lines.append(line)
        make_blocks(chain, chain.visible, 1)

    export_chain(home.directory, home.genesis, write, "test")
    chain.close()
    assert import_chain(ExportReader(lines), tmp_path / "data").head == 4


Alteration = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("alter", "why"),
    [
        (lambda block: block.update(timestamp=block["timestamp"] + 1), "by its content"),
        (lambda block: block.update(proposer="0x" + "11" * 20), "by its content"),
        (lambda block: block["txs"].pop(), "by its content"),
        (lambda block: block["txs"].append(block["txs"][0]), "cannot be applied"),
        (lambda block: block["txs"].__setitem__(0, "0x1234"), "block 2"),
        (lambda block: block["txs"].__setitem__(0, "xyz"), "in hex"),
        (lambda block: block.update(signature="0x" + "00" * 64), "signature"),
        (lambda block: block.pop("signature"), "64 bytes"),
        (lambda block: block.update(height=7), "not in its place"),
        (lambda block: block.update(hash="0x" + "22" * 32), "by its content"),
        (lambda block: block.update(governance="0x00"), "validators on a chain that has none"),
        (lambda block: block.update(more=1), "cannot be read"),
        (lambda block: block.pop("timestamp"), "cannot be read"),
    ],
)
def test_an_altered_block_is_refused_with_its_line(
    lone: VerifiedHome, tmp_path: Path, alter: Alteration, why: str
) -> None:
    lines = exported(lone)
    block = json.loads(lines[2])
    alter(block)
    lines[2] = json.dumps(block).encode() + b"\n"
    with pytest.raises(InvalidConfig, match=f"line 3: .*{why}"):
        import_chain(ExportReader(lines), tmp_path / "data")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lines: lines[:-1], "cut off"),
        (lambda lines: [lines[0], *lines[2:]], "not in its place"),
        (lambda lines: [*lines, lines[-1]], "more follows"),
        (lambda lines: lines[1:], "no export"),
        (lambda lines: [], "no export"),
        (lambda lines: [b"\x00\xff"], "cannot be read"),
        (lambda lines: [lines[0].replace(b'"format":1', b'"format":2'), *lines[1:]], "format is 2"),
        (lambda lines: [lines[0].replace(b'"chainId":1337', b'"chainId":1338'), *lines[1:]], "line 2"),
        (lambda lines: [*lines[:-2], lines[-1]], "SHA-256"),
        (lambda lines: [lines[0], lines[0], *lines[1:]], "second beginning"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(
    lone: VerifiedHome, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], why: str
) -> None:
    with pytest.raises(InvalidConfig, match=why):
        import_chain(ExportReader(change(exported(lone))), tmp_path / "data")


def without_kind(kind: bytes) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [line for line in lines if not line.startswith(b'{"line":"%s"' % kind)]


def with_oldest(**fields: Any) -> Callable[[list[bytes]], list[bytes]]:
    """With another line of the oldest block."""

    def change(lines: list[bytes]) -> list[bytes]:
        at = next(at for at, line in enumerate(lines) if b'"line":"block"' in line)
        oldest = json.dumps(json.loads(lines[at]) | fields).encode() + b"\n"
        return [*lines[:at], oldest, *lines[at + 1 :]]

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (without_kind(b"part"), "line 2: the state has 2 parts, and here is none"),
        (lambda lines: [*lines[:2], *lines[3:]], "line 3: the state has 2 parts, and here is none"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "line 2: the state: part 1 of the snapshot came"),
        (lambda lines: [*lines[:3], *lines[2:]], "line 4: the oldest block must follow its state"),
        (lambda lines: [*lines[:4], lines[2], *lines[4:]], "line 5: a part of the state, where none is due"),
        (without_kind(b"block"), "line 4: the oldest block must follow its state"),
        (lambda lines: [*lines[:3], *lines[4:]], "line 4: block 5 is not in its place"),
        (with_oldest(signature="0x" + "00" * 64), "line 4: the signature of validator 0 on header 5 is wrong"),
        (with_oldest(hash="0x" + "00" * 32), "line 4: block 4 is another one than that of the state"),
        (with_oldest(timestamp=1), "line 4: block 4 is another one than that of the state"),
        (with_oldest(proposer="0x" + "11" * 20), "line 4: block 4 is another one than that of the state"),
        (with_oldest(txs=[]), "line 4: block 4 is another one than that of the state"),
        (with_oldest(governance="0x00"), "line 4: block 4 leaves other validators than those in the state"),
        (with_oldest(txs=["0x00"]), "line 4: the state: "),
        (with_oldest(balances={"0x" + "11" * 20: str(2**256)}), "line 4: the state: "),
    ],
)
def test_a_state_and_an_oldest_block_that_do_not_fit_are_refused(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], why: str
) -> None:
    home = pruned_home(tmp_path / "given" / "data")
    lines = exported(home)
    with pytest.raises(InvalidConfig, match=why):
        import_chain(ExportReader(change(lines)), tmp_path / "data")
    # Nothing of it is in the way of the right file.
    assert import_chain(ExportReader(lines), tmp_path / "data").head == 9


def test_a_pending_transaction_that_is_confirmed_by_now_is_not_pending_again(
    lone: VerifiedHome, tmp_path: Path
) -> None:
    chain = ChainStore.open(lone.directory, lone.genesis)
    journal = Journal.open(journal_path(lone.directory), chain.watermark)
    confirmed = signed(0, sender=3)
    assert chain.find_location(confirmed.hash) is not None
    journal.append_add(7, confirmed, encode_record(confirmed))
    journal.sync()
    journal.close()
    chain.close()
    import_chain(ExportReader(exported(lone)), tmp_path / "data")
    assert confirmed.hash not in pending_of(tmp_path / "data", lone)


@pytest.mark.parametrize("blocks", [{"oldest": -1}, {"oldest": 10**6}, {"height": 2**64}, {"height": -1}])
def test_an_export_of_impossible_blocks_is_refused(lone: VerifiedHome, blocks: dict[str, int]) -> None:
    first = json.loads(exported(lone)[0]) | blocks
    with pytest.raises(InvalidConfig, match="line 1: it cannot have the blocks"):
        ExportReader([json.dumps(first).encode() + b"\n"])


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_line_that_is_nested_deeply_is_refused(depth: int) -> None:
    genesis = b'{"alloc":' + b"[" * depth + b"]" * depth + b"}"
    line = b'{"line":"chain","format":1,"oldest":0,"height":0,"hash":"","genesis":' + genesis + b"}\n"
    with pytest.raises(InvalidConfig, match="line 1: "):
        ExportReader([line])
