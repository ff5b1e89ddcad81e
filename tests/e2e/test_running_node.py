"""A real node says in its home that it runs, also after it was killed and started again."""

from pathlib import Path

import httpx

from cairn import __version__
from cairn.running_node import RUNNING_FILE, find_running
from tests.support.lone_home import LoneHome
from tests.support.node_process import NodeProcess, wait_until
from tests.support.pace import PATIENCE_S


def test_a_node_is_found_in_its_home_until_it_stops_or_is_killed(tmp_path: Path) -> None:
    home = LoneHome(tmp_path / "home")
    with home.start() as node:
        node.wait_ready()
        found = find_running(home.directory)
        assert found is not None
        assert (found.pid, found.url, found.version) == (node.process.pid, node.url, __version__)
        assert found.core_socket.is_socket()
        assert httpx.get(found.url + "/health", timeout=PATIENCE_S).status_code == 200
        node.kill_group()
        wait_until(lambda: find_running(home.directory) is None, PATIENCE_S, "its end")
        assert (home.directory / RUNNING_FILE).exists()
    with home.start() as again:
        again.wait_ready()
        found = find_running(home.directory)
        assert found is not None
        assert found.pid == again.process.pid
        assert again.stop() == 0
        assert not (home.directory / RUNNING_FILE).exists()
        assert find_running(home.directory) is None


def test_a_second_node_that_finds_its_home_in_use_leaves_the_first_findable(tmp_path: Path) -> None:
    home = LoneHome(tmp_path / "home")
    with home.start() as node:
        node.wait_ready()
        assert "is in use by the node with process id" in home.refusal()
        found = find_running(home.directory)
        assert found is not None
        assert found.pid == node.process.pid


def test_a_dev_chain_is_found_in_the_directory_that_it_keeps(tmp_path: Path) -> None:
    with NodeProcess.start_dev(data_dir=tmp_path / "data") as node:
        found = find_running(tmp_path / "data")
        assert found is not None
        assert found.url == node.url
        assert node.stop() == 0
        assert find_running(tmp_path / "data") is None
