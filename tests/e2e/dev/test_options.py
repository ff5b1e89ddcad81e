"""`cairn dev` with accounts and rules of one's own, and a chain that is saved in a file."""

from pathlib import Path

from eth_account import Account
from eth_account.messages import encode_defunct

from cairn.domain.genesis import COIN
from tests.support.node_process import NodeProcess, await_printed
from tests.support.public import PublicNode
from tests.support.rpc import rpc

CHOSEN = ("--accounts", "2", "--balance", "5", "--chain-id", "7", "--gas-price", "0")
WORDS = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"
FIRST = "0x9858EfFD232B4033E47d90003D41EC34EcaEda94"
STRANGER = "0x1000000000000000000000000000000000000001"


def test_a_chain_with_chosen_accounts_and_rules_is_saved_and_loaded(tmp_path: Path) -> None:
    file = tmp_path / "chain.zip"
    options = (*CHOSEN, "--mnemonic", WORDS)
    with NodeProcess.start_dev("--block-time", "0", "--state", str(file), *options) as node:
        public = PublicNode(node.url)
        assert int(rpc(node.url, "eth_chainId"), 16) == 7
        accounts = rpc(node.url, "eth_accounts")
        assert (len(accounts), accounts[0]) == (2, FIRST.lower())
        paid = rpc(node.url, "eth_sendTransaction", {"from": FIRST, "to": STRANGER, "value": hex(COIN)})
        public.await_confirmed(paid)
        await_printed(node, f"  dev0 → 0x1000…0001  1 coin  {paid}\n")
        # Whatever signs, signs with the keys of these words.
        signed = rpc(node.url, "eth_signTransaction", {"from": FIRST, "to": STRANGER, "value": "0x1"})
        assert signed["tx"]["from"] == FIRST.lower()
        signature = rpc(node.url, "personal_sign", "0x6869", FIRST)
        assert Account.recover_message(encode_defunct(text="hi"), signature=signature) == FIRST
        assert public.read(f"/account/{FIRST}")["balance"] == 4 * COIN
        head = public.read("/chain")["head"]
        public.close()
        assert node.stop() == 0, node.stderr
    saved = file.read_bytes()

    with NodeProcess.start_dev("--load-state", str(file), *options) as node:
        public = PublicNode(node.url)
        assert public.read("/chain")["head"] == head
        assert public.read(f"/account/{STRANGER}")["balance"] == COIN
        rpc(node.url, "evm_mine")
        public.close()
        assert node.stop() == 0, node.stderr
    assert file.read_bytes() == saved


def test_a_second_node_that_would_save_to_the_same_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "chain.zip"
    with NodeProcess.start_dev("--state", str(file)) as first:
        with NodeProcess.start(("dev", "--port", "0", "--state", str(file))) as second:
            assert second.wait_exit() == 2
            assert second.stdout == ""
            assert second.stderr.startswith(f"cairn: the node with process id {first.process.pid} saves its chain to")
            assert len(second.stderr.splitlines()) == 1
        first.process.kill()
        first.wait_exit()
        with NodeProcess.start_dev("--state", str(file)) as third:
            assert third.stop() == 0, third.stderr
    assert list(tmp_path.iterdir()) == [file]


def test_a_removed_temporary_directory_is_reported_when_the_chain_is_saved(tmp_path: Path) -> None:
    file, temporary = tmp_path / "chain.zip", tmp_path / "tmp"
    temporary.mkdir()
    with NodeProcess.start(("dev", "--port", "0", "--state", str(file)), {"TMPDIR": str(temporary)}) as node:
        assert node.url
        [place] = temporary.glob("cairn-dev-*")
        place.rename(tmp_path / "gone")
        assert node.stop() == 2
        assert f"cairn: cannot save the chain to {file}: it was in {place}, which was removed or emptied" in node.stderr
    assert not file.exists()
