"""Builds what is published into dist/: `cairn-node` and `cairn-node-client`, as sdist and wheel, and describes them.

Everything is built twice, under different conditions, and must come out the same to the last byte. Then twine reads it,
and each wheel is installed into a bare environment and tried there (tests/e2e/distribution). Beside the files go
SHA256SUMS, the changes of this version, a bill of materials per wheel (CycloneDX), and a provenance statement (in-toto,
SLSA; not signed here: the forge signs what it builds).

A commit that carries the tag of the version is released; any other is a rehearsal, which does all the same and then
prints what would publish it. Nothing is published from here: the forge does it (.github/workflows/release.yml).
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
UV = ROOT / ".tools" / "uv" / "bin" / "uv"
TOOLS = ROOT / ".tools" / "release"
DIST = ROOT / "dist"
CLIENT = ROOT / "packaging" / "client"
CLIENT_PARTS = ("__init__.py", "py.typed", "client", "domain", "loopback.py", "testing.py")
LOCKS = ("requirements/build.txt", "requirements/runtime.txt", "requirements/release.txt", "requirements/uv.txt")
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PROVENANCE_TYPE = "https://slsa.dev/provenance/v1"
DATE = re.compile(r"\d{4}-\d\d-\d\d")


class ReleaseError(Exception):
    pass


def version() -> str:
    """The one place that says it; hatchling reads the same line."""
    [found] = re.findall(r'^__version__ = "(.*)"$', (ROOT / "src" / "cairn" / "__init__.py").read_text(), re.MULTILINE)
    return str(found)


def build(target: Path, *, umask: int = 0o022, zone: str = "UTC") -> list[Path]:
    """Both distributions. A wheel is made from the unpacked sdist, so that the sdist is known to have all it takes."""
    target.mkdir(parents=True)
    environment = os.environ | {"SOURCE_DATE_EPOCH": _git("log", "-1", "--format=%ct"), "TZ": zone}
    with tempfile.TemporaryDirectory(prefix="cairn-release-") as scratch:
        client = Path(scratch, "client")
        _stage_client(client)
        for source in (ROOT, client):
            sdist = _hatch("sdist", source, target, environment, umask)
            # Not tarfile: its safe filter is not in Python 3.11.2, and without one newer ones warn.
            subprocess.run(["tar", "-xf", sdist, "-C", scratch], check=True)
            _hatch("wheel", Path(scratch, sdist.name.removesuffix(".tar.gz")), target, environment, umask)
    return sorted(target.iterdir())


def _stage_client(target: Path) -> None:
    shutil.copytree(CLIENT, target)
    shutil.copy(ROOT / "LICENSE", target)
    for part in CLIENT_PARTS:
        source, copy = ROOT / "src" / "cairn" / part, target / "src" / "cairn" / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)


def _hatch(kind: str, source: Path, target: Path, environment: Mapping[str, str], umask: int) -> Path:
    before = set(target.iterdir())
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(command, cwd=source, env=environment, umask=umask, stdout=subprocess.DEVNULL, check=True)
    [made] = set(target.iterdir()) - before
    return made


def differences(one: Path, other: Path) -> list[str]:
    """The names of files that are not the same in both directories."""
    digests = [{path.name: _sha256(path) for path in directory.iterdir()} for directory in (one, other)]
    return sorted(name for name in digests[0] | digests[1] if digests[0].get(name) != digests[1].get(name))


def bare_environment(wheel: Path, target: Path) -> Path:
    """Install a wheel as its user does, with what it asks for, in the versions that were tested. Returns its Python."""
    python = target / "bin" / "python"
    subprocess.run([str(UV), "venv", "--quiet", "--no-project", "--python", sys.executable, str(target)], check=True)
    pins = ["--constraints", str(ROOT / "requirements" / "runtime.txt")]
    subprocess.run([str(UV), "pip", "install", "--quiet", "--python", str(python), *pins, str(wheel)], check=True)
    return python


def changes(changelog: str, wanted: str) -> tuple[str, str]:
    """The section of a version: what its heading has in brackets, and its text. Raises `ReleaseError`."""
    found = re.findall(r"^## (\S+)(?: \((.*)\))?\n((?:(?!## ).*\n?)*)", changelog, re.MULTILINE)
    sections = {name: (str(date), str(text)) for name, date, text in found}
    if wanted not in sections:
        raise ReleaseError(f"CHANGELOG.md has no section '## {wanted}'")
    date, text = sections[wanted]
    return date, text.strip() + "\n"


def next_steps(named: str, date: str) -> list[str]:
    """What is left for a person to do after a rehearsal (docs/releasing.md)."""
    dated = [] if DATE.fullmatch(date) else [f"date the section {named} of CHANGELOG.md, and commit"]
    return [*dated, f"git tag --sign --message 'Cairn {named}' v{named}", f"git push origin v{named}"]


def statement(files: Iterable[Path], commit: str, builder: str) -> dict[str, object]:
    """Which commit and which pinned tools these files come from, as in-toto and SLSA say it."""
    locks = [{"uri": f"file:{name}", "digest": {"sha256": _sha256(ROOT / name)}} for name in LOCKS]
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": path.name, "digest": {"sha256": _sha256(path)}} for path in sorted(files)],
        "predicateType": PROVENANCE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:cairn:make-release:1",
                "externalParameters": {"target": "release", "version": version()},
                "resolvedDependencies": [{"uri": "git:HEAD", "digest": {"gitCommit": commit}}, *locks],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def _builder() -> str:
    """The forge's run, where it is one that says so."""
    try:
        return "{GITHUB_SERVER_URL}/{GITHUB_WORKFLOW_REF}".format(**os.environ)
    except KeyError:
        return "urn:cairn:a-checkout"


def _describe(wheel: Path, scratch: Path) -> None:
    python = bare_environment(wheel, scratch / wheel.stem)
    name = wheel.name.split("-")[0].replace("_", "-")
    project = CLIENT if name == "cairn-node-client" else ROOT
    command = [str(TOOLS / "bin" / "cyclonedx-py"), "environment", "--pyproject", str(project / "pyproject.toml")]
    options = ["--output-reproducible", "--of", "JSON", "-o", str(DIST / f"{name}-{version()}.cdx.json")]
    subprocess.run([*command, *options, str(python)], check=True)


def _install_tools() -> None:
    python = str(TOOLS / "bin" / "python")
    subprocess.run(
        [str(UV), "venv", "--quiet", "--no-project", "--clear", "--python", sys.executable, str(TOOLS)], check=True
    )
    pins = ["--require-hashes", "-r", str(ROOT / "requirements" / "release.txt")]
    subprocess.run([str(UV), "pip", "install", "--quiet", "--python", python, *pins], check=True)


def _checked_commit() -> tuple[str, bool]:
    """The commit, and whether it is tagged as this version. Raises `ReleaseError` for what no statement could name."""
    if _git("status", "--porcelain"):
        raise ReleaseError("the checkout has changes that are in no commit")
    tags = [tag for tag in _git("tag", "--points-at", "HEAD").split() if re.match(r"v\d", tag)]
    if tags and tags != [f"v{version()}"]:
        raise ReleaseError(f"the commit is tagged {', '.join(tags)}, and the version is {version()}")
    return _git("rev-parse", "HEAD"), bool(tags)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def release() -> None:
    commit, tagged = _checked_commit()
    print(f"release: {'this is' if tagged else 'a rehearsal of'} {version()}, from {commit[:12]}", flush=True)
    date, notes = changes((ROOT / "CHANGELOG.md").read_text(), version())
    if tagged and not DATE.fullmatch(date):
        raise ReleaseError(f"the commit is tagged, and CHANGELOG.md does not date {version()}: it says {date!r}")
    shutil.rmtree(DIST, ignore_errors=True)
    _install_tools()
    with tempfile.TemporaryDirectory(prefix="cairn-release-") as directory:
        scratch = Path(directory)
        files = build(DIST)
        build(scratch / "again", umask=0o077, zone="Pacific/Auckland")
        if differing := differences(DIST, scratch / "again"):
            raise ReleaseError(f"built twice, and not the same: {', '.join(differing)}")
        subprocess.run([str(TOOLS / "bin" / "twine"), "check", "--strict", *map(str, files)], check=True)
        for wheel in DIST.glob("*.whl"):
            _describe(wheel, scratch)
    tests = [f"tests/e2e/distribution/{name}.py" for name in ("test_wheels", "test_installs")]
    trial = [sys.executable, "-m", "pytest", "-q", "-n", "0", *tests]
    subprocess.run(trial, cwd=ROOT, env=os.environ | {"DISTRIBUTIONS": str(DIST)}, check=True)
    (DIST / "CHANGES.md").write_text(notes)
    (DIST / "SHA256SUMS").write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in files))
    told = sorted(path for path in DIST.iterdir() if path.suffix != ".md")
    (DIST / "provenance.intoto.json").write_text(json.dumps(statement(told, commit, _builder()), indent=2) + "\n")
    print(f"release: {len(files)} files in {DIST.name}/, the same twice, tried and described")
    if not tagged:
        print("\n".join(f"release: to publish it, {step}" for step in next_steps(version(), date)))


if __name__ == "__main__":
    try:
        release()
    except ReleaseError as error:
        sys.exit(f"release: {error}")
