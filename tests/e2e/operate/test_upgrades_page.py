"""docs/upgrades.md as an operator follows it: a chain is exported, imported and continued with the same head."""

from pathlib import Path

from tests.support.lone_home import LoneHome
from tests.support.pages import Hashes, Page, Terminal, steady
from tests.support.public import get_anew

PAGE = Page("docs/upgrades.md").section("Move a chain to another data format")


def test_an_imported_chain_has_the_same_head_and_proofs_and_goes_on(tmp_path: Path) -> None:
    home = LoneHome(tmp_path / "shop")
    with home.start() as node:
        node.wait_ready()
        for _ in range(3):
            home.pay(node)
        before = [get_anew(f"{node.url}/block/{height}/finality").json() for height in range(1, 4)]
        assert node.stop() == 0
    reader, hashes = Terminal(tmp_path, "http://127.0.0.1:1"), Hashes()
    for line, shown in PAGE.steps():
        printed = reader.run(line)
        assert steady(printed) == steady(hashes.learn(shown, printed)), line
    with home.start() as node:
        node.wait_ready()
        assert [get_anew(f"{node.url}/block/{height}/finality").json() for height in range(1, 4)] == before
        home.pay(node)
        assert home.proven(node, 4).header.height == 4


def test_a_running_node_goes_through_a_pipe_into_a_new_home(tmp_path: Path) -> None:
    home = LoneHome(tmp_path / "shop")
    with home.start() as node:
        node.wait_ready()
        home.pay(node)
        reader = Terminal(tmp_path, node.url)
        printed = reader.run("cairn export - --home shop | cairn import - copy 2>&1")
        assert "Imported the blocks 0 to 1, 1 transaction and 0 pending ones" in printed
        assert "signing-key.json before you start it" in printed
        assert "a second signed history begins" in printed
        head = home.proven(node, 1).hash.hex()
    assert head in reader.run("cairn verify --home copy --json")
    refusal = home.cairn("import", str(tmp_path / "nothing"), str(tmp_path / "shop"), code=2)
    assert "exists already; nothing was written" in refusal


def test_a_directory_of_another_format_names_the_way(tmp_path: Path) -> None:
    home = LoneHome(tmp_path / "shop")
    (home.directory / "data").mkdir()
    (home.directory / "data" / "FORMAT").write_text("cairn data format 7\n")
    # Any free ports: another node may hold the usual ones, and `run` would refuse those first.
    for command in (["verify"], ["run", "--port", "0", "--metrics-port", "0"]):
        refusal = home.cairn(*command, "--home", str(home.directory), code=3)
        assert "cairn import FILE HOME" in refusal, command
