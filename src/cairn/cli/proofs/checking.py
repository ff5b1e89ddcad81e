"""`cairn check`: what a file proves, offline."""

import base64
import re
from pathlib import Path

from cairn.cli.proofs.files import StatementOutputs, check_free, read_bytes, read_genesis, save
from cairn.cli.proofs.report import CheckedFile, report_of
from cairn.cli.proofs.statement_page import statement_page
from cairn.cli.proofs.statement_table import statement_csv
from cairn.cli.proofs.verdict import fork_json, print_fork, print_report, verdict_json
from cairn.cli.report import CommandFailed
from cairn.cli.screen import print_json
from cairn.domain.ed25519 import PUBLIC_KEY_BYTES
from cairn.domain.errors import InvalidConfig, InvalidField, InvalidProof, MalformedJson
from cairn.domain.evidence import ProvenFork, check_evidence, read_evidence
from cairn.domain.genesis import Genesis, parse_genesis
from cairn.domain.json_fields import find_bytes
from cairn.domain.proof_checks import BlockName, Trust
from cairn.domain.proof_files import read_file
from cairn.domain.statement_checks import Proven, ProvenStatement, check_file
from cairn.domain.types import BlockHash

NOT_PROVEN = "NOT_PROVEN"
"""The code of a refusal: the file does not prove what it claims."""

_is_block_name = re.compile(r"([0-9]{1,16}):0x([0-9a-fA-F]{64})").fullmatch


def check_proof(
    file: Path,
    genesis_file: Path,
    at: str | None,
    witnesses: list[str],
    outputs: StatementOutputs,
    force: bool,
    as_json: bool,
) -> None:
    """Print what the file proves. Raises `CommandFailed` with what does not hold."""
    check_free(outputs.paths, force)
    trust = Trust(
        read_genesis(genesis_file),
        None if at is None else parse_block_name(at),
        tuple(parse_witness(key) for key in witnesses),
    )
    content = read_proof(file)
    checked = CheckedFile.of(content, file.name)
    fork = fork_in(content, trust)
    if fork is not None:
        if as_json:
            print_json(fork_json(fork, trust.genesis, checked))
        else:
            print_fork(fork, trust.genesis, checked)
        return
    proven = proven_by(content, trust)
    if outputs.paths:
        if not isinstance(proven, ProvenStatement):
            raise InvalidConfig("--csv and --html are for statements")
        write_statement(proven, trust.genesis, outputs, checked, b"", force)
    show(proven, trust.genesis, checked, as_json)


def show(proven: Proven, genesis: Genesis, file: CheckedFile, as_json: bool) -> None:
    if as_json:
        print_json(verdict_json(proven, genesis, file))
    else:
        print_report(report_of(proven, genesis, file))


def read_proof(file: Path) -> bytes:
    """The content of a file that may be a proof. Raises `CommandFailed` for what often is given instead of one."""
    content = read_bytes(file)
    if not content.strip():
        raise CommandFailed(f"not proven: {file} is empty", NOT_PROVEN)
    try:
        parse_genesis(content)
    except (InvalidField, MalformedJson):
        return content
    raise CommandFailed(f"not proven: {file} is a genesis.json, not a proof", NOT_PROVEN)


def fork_in(raw: bytes, trust: Trust) -> ProvenFork | None:
    """What a file of evidence proves; None for any other file. Raises `CommandFailed`."""
    try:
        evidence = read_evidence(raw)
        return None if evidence is None else check_evidence(evidence, trust)
    except InvalidProof as error:
        raise CommandFailed(f"not proven: {error}", NOT_PROVEN) from None


def proven_by(raw: bytes, trust: Trust) -> Proven:
    """What a file proves. Raises `CommandFailed`."""
    try:
        return check_file(read_file(raw, without_signatures=trust.at is not None), trust)
    except InvalidProof as error:
        raise CommandFailed(f"not proven: {error}", NOT_PROVEN) from None


def write_statement(
    proven: ProvenStatement, genesis: Genesis, outputs: StatementOutputs, file: CheckedFile, proof: bytes, force: bool
) -> None:
    contents = {}
    if outputs.proof is not None:
        contents[outputs.proof] = proof
    if outputs.csv is not None:
        contents[outputs.csv] = statement_csv(proven).encode()
    if outputs.html is not None:
        contents[outputs.html] = statement_page(report_of(proven, genesis, file), proven, file).encode()
    save(contents, force)


def parse_block_name(text: str) -> BlockName:
    found = _is_block_name(text)
    if found is None:
        raise InvalidConfig(f"--at: {text!r} is not HEIGHT:HASH, such as 4711:0x and 64 hexadecimal digits")
    return BlockName(int(found[1]), BlockHash(bytes.fromhex(found[2])))


def parse_witness(text: str) -> bytes:
    """A public key, as witnesses show it (hex) or as genesis.json has them (base64)."""
    found = find_bytes(text, PUBLIC_KEY_BYTES)
    if found is not None:
        return found
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) != PUBLIC_KEY_BYTES:
        raise InvalidConfig(f"--witness: {text!r} is not a public key of {PUBLIC_KEY_BYTES} bytes in hex or base64")
    return key
