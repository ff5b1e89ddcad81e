"""Runs the unit tests on every Python that is supported and can be had, and names those that cannot.

    make matrix                          all of them
    make matrix ARGS="--python 3.14 tests/unit/domain"

An interpreter is one of this machine (on PATH, or pyenv's), or what uv downloads, or what a Go module carries: on a
machine that reaches nothing but package registries, only the last is left. Exits with 1 when a test failed, and in CI
also when a Python is missing.
"""

import argparse
import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
UV = ROOT / ".tools" / "uv" / "bin" / "uv"
KEPT = ROOT / ".tools" / "python"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
CARRIED = {
    "3.14": (
        "github.com/kluctl/go-embed-python@v0.0.0-3.14.6-20260610-1",
        "oGUS7++Wm3LgxUfD6AmJgKbKQD2wdQFO9PzyJv6T+E4=",
    ),
}
"""Modules with python-build-standalone's builds inside, and their sums as go.sum has them."""
MACHINES = {
    ("linux", "x86_64"): "linux-amd64",
    ("linux", "aarch64"): "linux-arm64",
    ("darwin", "arm64"): "darwin-arm64",
}
IN_CI = os.environ.get("CI") == "true"


def find_python(version: str) -> Path | None:
    """The first that runs, of what is here, what uv gives and what a module carries."""
    for way in (_on_this_machine, _downloaded, _carried):
        python = way(version)
        if python is not None and _runs(python, version):
            return python
    return None


def _runs(python: Path, version: str) -> bool:
    program = "import ssl, sys; print('%d.%d' % sys.version_info[:2])"
    run = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=False)
    return run.stdout.strip() == version


def _on_this_machine(version: str) -> Path | None:
    command = [str(UV), "python", "find", "--no-project", "--no-python-downloads", version]
    run = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return Path(run.stdout.strip())
    # Its commands on PATH stand for one version only.
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    return next(iter(sorted(pyenv.glob(f"{version}.*/bin/python"))), None)


def _downloaded(version: str) -> Path | None:
    directory = KEPT / "uv"
    environment = os.environ | {"UV_PYTHON_INSTALL_DIR": str(directory), "UV_HTTP_RETRIES": "0"}
    command = [str(UV), "python", "install", "--no-bin", version]
    subprocess.run(command, env=environment, capture_output=True, check=False)
    return next(iter(sorted(directory.glob(f"cpython-{version}.*/bin/python{version}"))), None)


def _carried(version: str) -> Path | None:
    machine = MACHINES.get((sys.platform, os.uname().machine))
    if version not in CARRIED or machine is None:
        return None
    python = KEPT / "carried" / version / "bin" / f"python{version}"
    if not python.exists():
        archive = _fetched_module(*CARRIED[version])
        if archive is None:
            return None
        _unpack(archive / "python" / "internal" / "data" / machine, python.parents[1])
    return python


def _fetched_module(name: str, expected_sum: str) -> Path | None:
    go = subprocess.run(["sh", "tools/go.sh", "tools/cometbft/go.mod"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if go.returncode != 0:
        return None
    # Its sum is pinned here: nobody else needs to be asked for it.
    environment = os.environ | {"GONOSUMDB": "*", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    command = [go.stdout.strip(), "mod", "download", "-json", name]
    run = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return None
    module = json.loads(run.stdout)
    if module["Sum"] != f"h1:{expected_sum}":
        raise SystemExit(f"matrix: {name} has the sum {module['Sum']}, not the pinned one")
    return Path(module["Dir"])


def _unpack(source: Path, target: Path) -> None:
    """As the module's own code does: what is large is compressed, and modes and links are in a list."""
    draft = target.with_name(target.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    for entry in json.loads((source / "files.json").read_text())["files"]:
        path = draft / entry["name"]
        if "symlink" in entry:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(entry["symlink"])
        elif entry["perm"] >> 31:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            packed = source / (entry["name"] + ".gz")
            content = gzip.decompress(packed.read_bytes()) if packed.exists() else (source / entry["name"]).read_bytes()
            path.write_bytes(content)
            path.chmod(stat.S_IMODE(entry["perm"] & 0o777))
    draft.rename(target)


def passes_on(python: Path, version: str, tests: list[str]) -> bool:
    """Whether they pass in an environment of what requirements/dev.txt pins, and no other."""
    environment = KEPT / f"env-{version}"
    installed = environment / "bin" / "python"
    pip = [str(UV), "pip", "install", "--quiet", "--python", str(installed)]
    pins = [str(ROOT / "requirements" / f"{name}.txt") for name in ("build", "dev")]
    subprocess.run(
        [str(UV), "venv", "--quiet", "--no-project", "--clear", "--python", str(python), str(environment)], check=True
    )
    # A package without a wheel for this Python fails here, and is not built for minutes.
    subprocess.run([*pip, "--only-binary", ":all:", "--require-hashes", "-r", pins[0], "-r", pins[1]], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], check=True)
    command = [str(installed), "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", dest="versions", metavar="VERSION", help="only this one")
    parser.add_argument("--find", action="store_true", help="only say which there are")
    parser.add_argument("tests", nargs="*", help="instead of tests/unit")
    given = parser.parse_args()
    results = {}
    for version in given.versions or PYTHONS:
        python = find_python(version)
        print(f"matrix: {version} {'cannot be had here' if python is None else f'is {python}'}", flush=True)
        if python is None:
            results[version] = "not run: cannot be had here"
        elif not given.find:
            results[version] = "passed" if passes_on(python, version, given.tests or ["tests/unit"]) else "failed"
    for version, result in results.items():
        print(f"matrix: {version} {result}")
    sys.exit("failed" in results.values() or (IN_CI and any(result != "passed" for result in results.values())))


if __name__ == "__main__":
    main()
