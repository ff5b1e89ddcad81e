"""A chain of one node's own in a home directory, run as its operator runs it."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cairn.config import EXIT_FATAL
from cairn.domain.certificates import SignedBlock, check_certificate
from cairn.domain.crypto import checksum_address
from cairn.domain.genesis import DEV_KEYS, parse_genesis
from cairn.domain.proof_files import FinalityFile, read_file
from tests.support.commands import run_here
from tests.support.node_process import NodeProcess, clean_environment, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode, get_anew
from tests.support.wallet import dev_account, sign_transfer

HOLDER, PAYEE = (checksum_address(address) for address, _ in DEV_KEYS[:2])


class LoneHome:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key_file = directory / "signing-key.json"
        run_here(["init", str(directory), "--chain-id", "1337", "--alloc", f"{HOLDER}=5coins", "--proposer", HOLDER])
        self.paid = 0

    def cairn(self, *args: str, code: int = 0) -> str:
        done = self._run(args)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def cairn_json(self, *args: str) -> Any:
        """What a command prints with --json; it may warn besides, as of a slow disk."""
        done = self._run([*args, "--json"])
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def _run(self, args: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(args), env=clean_environment(), capture_output=True, text=True, start_new_session=True
        )

    def start(self) -> NodeProcess:
        return NodeProcess.start(("run", "--home", str(self.directory), "--port", "0", "--workers=1", "--block-time=0"))

    def pay(self, node: NodeProcess, value: int = 1) -> str:
        """Have one block made; returns the hash of its transaction."""
        public = PublicNode(node.url)
        tx_hash = public.submit(sign_transfer(dev_account(0), PAYEE, value, self.paid))
        public.await_confirmed(tx_hash)
        public.close()
        self.paid += 1
        return tx_hash

    def proven(self, node: NodeProcess, height: int | str) -> SignedBlock:
        answer = get_anew(f"{node.url}/block/{height}/finality")
        assert answer.status_code == 200, answer.text
        file = read_file(answer.content)
        assert isinstance(file, FinalityFile)
        return check_certificate(file.certificate, parse_genesis((self.directory / "genesis.json").read_bytes()))

    def signers(self, node: NodeProcess) -> list[bytes]:
        """Who signed each block from the first on."""
        found: list[bytes] = []
        for height in range(1, self.paid + 1):
            proven = self.proven(node, height)
            assert proven.header.height == height
            found.extend(proven.signed.signers)
        return found

    def refusal(self) -> str:
        with self.start() as node:
            wait_until(lambda: not node.is_running or "Listening on" in node.stdout, PATIENCE_S, "its end")
            assert not node.is_running, "it started"
            assert node.process.returncode == EXIT_FATAL
            return node.stderr
