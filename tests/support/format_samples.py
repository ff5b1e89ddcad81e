"""Tiny data directories of each data format, as the version that introduced it wrote them.

In the commit of a new format, `python -m tests.support.format_samples` makes its sample. It never changes one.

A sample is a zip file, tests/vectors/formats/FORMAT.zip. It holds, for a node of its own (`lone`) and for one of a
network (`network`): genesis.json, data/, the chain as `cairn export` wrote it, and expected.json. It is made once, with
the first commit of a format, and never changed.
"""

import json
import tempfile
import zipfile
from pathlib import Path

from cairn.build import DATA_FORMAT
from cairn.domain.genesis import encode_genesis
from cairn.store.chain_export import export_chain
from cairn.store.verification.verification import verify_directory
from tests.support.verified_homes import lone_home, network_home

SAMPLES = Path(__file__).parents[1] / "vectors" / "formats"
KINDS = {"lone": lone_home, "network": network_home}
LEFT_OUT = ("LOG", "LOCK", "cairn.lock")
"""What a start makes anew."""


def sample_path(number: int) -> Path:
    return SAMPLES / f"{number}.zip"


def sample_numbers() -> list[int]:
    return sorted(int(path.stem) for path in SAMPLES.glob("*.zip"))


def make_sample(path: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED, True, 9) as sample:
        for kind, make in KINDS.items():
            root = Path(scratch, kind)
            directory, genesis = make(root / "data")
            lines: list[bytes] = []
            export_chain(directory, genesis, lines.append, "")
            verdict = verify_directory(directory, genesis)
            assert not verdict.findings
            expected = {"height": verdict.head, "hash": verdict.head_hash.hex(), "pending": verdict.pending}
            (root / "genesis.json").write_bytes(encode_genesis(genesis))
            (root / "chain.ndjson").write_bytes(b"".join(lines))
            (root / "expected.json").write_text(json.dumps(expected))
            for each in sorted(root.rglob("*")):
                if each.is_file() and not each.name.startswith(LEFT_OUT):
                    sample.write(each, each.relative_to(scratch))


if __name__ == "__main__":
    today = sample_path(DATA_FORMAT)
    if today.exists():
        print(f"{today} is there already, and stays as it is")
    else:
        today.parent.mkdir(exist_ok=True)
        make_sample(today)
        print(f"made {today}, {today.stat().st_size:,} bytes")
