"""Clients that a stock generator makes from the node's own description: they compile, and each makes a payment."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cairn.api.description.openapi import encode_openapi
from tests.interop.conftest import HERE, OFFLINE_GO, run
from tests.support.node_process import NodeProcess
from tests.support.public import PublicNode
from tests.support.wallet import dev_account, new_account

VALUE = 12_345_678_901_234_567_891
"""More than 64 bits and far more than a double hold."""


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with NodeProcess.start_dev("--block-time", "0.2") as process:
        yield process


@pytest.fixture(scope="module")
def document(node: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the running node says of itself."""
    public = PublicNode(node.url)
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(public.get("/openapi.json").content)
    public.close()
    return path


def generate(python_programs: Path, document: Path, generator: str, target: Path, **properties: str) -> None:
    given = ",".join(f"{name}={value}" for name, value in properties.items())
    options = ["--additional-properties", given] if given else []
    only = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"
    run(
        [
            python_programs / "openapi-generator-cli", "generate", "--input-spec", document,
            "--generator-name", generator, "--output", target, "--global-property", only, *options,
        ],
        target.parent,
    )  # fmt: skip


def pay(node: NodeProcess, command: Sequence[str | Path], directory: Path) -> None:
    """Run the program that pays, and hold what it says against the node's own word."""
    sender, recipient = dev_account(0).address, new_account().address
    said = json.loads(run([*command, node.url, sender, recipient, str(VALUE)], directory))
    public = PublicNode(node.url)
    tx, account = public.read(f"/tx/{said['txHash']}"), public.read(f"/account/{recipient}")
    public.close()
    assert (tx["status"], tx["value"], account["balance"]) == ("confirmed", VALUE, VALUE)
    assert said == {
        "txHash": tx["txHash"],
        "blockHeight": tx["blockHeight"],
        "value": str(VALUE),
        "balance": str(VALUE),
        "refusal": "INSUFFICIENT_FUNDS",
    }


def test_go(node: NodeProcess, document: Path, python_programs: Path, go: str, tmp_path: Path) -> None:
    module = shutil.copytree(HERE / "go", tmp_path / "module")
    generate(python_programs, document, "go", module / "client", packageName="client", withGoMod="false")
    run([go, "vet", "."], module, OFFLINE_GO)
    run([go, "build", "-o", "pay", "."], module, OFFLINE_GO)
    pay(node, [module / "pay"], module)


def test_typescript_fetch(
    node: NodeProcess, document: Path, python_programs: Path, js_programs: Path, tmp_path: Path
) -> None:
    package = shutil.copytree(HERE / "typescript", tmp_path / "package")
    generate(python_programs, document, "typescript-fetch", package / "client")
    run([js_programs / "tsc", "--project", package], package)
    pay(node, ["node", package / "out" / "pay.js"], package)


def test_python(node: NodeProcess, document: Path, python_programs: Path, tmp_path: Path) -> None:
    package = shutil.copytree(HERE / "python", tmp_path / "package", ignore=shutil.ignore_patterns("__pycache__"))
    generate(python_programs, document, "python", package / "made", packageName="generated_client")
    shutil.move(package / "made" / "generated_client", package / "generated_client")
    run([python_programs / "python", "-m", "compileall", "-q", "generated_client"], package)
    pay(node, [python_programs / "python", "pay.py"], package)


def test_the_description_is_lint_clean(document: Path, js_programs: Path, tmp_path: Path) -> None:
    """By spectral's own rules, none left out, down to hints: of a dev chain, and of any other."""
    other = tmp_path / "other.json"
    other.write_bytes(encode_openapi([]))
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"extends": ["spectral:oas"]}))
    run([js_programs / "spectral", "lint", "--ruleset", rules, "--fail-severity", "hint", document, other], tmp_path)
