#!/bin/sh
# Installs what `make interop` needs beyond `make test`, each part pinned: a generator of clients with its Java, the packages
# of its Python client and web3.py's tests (.tools/interop/python); spectral, a TypeScript compiler, foundry's cast and
# hardhat (tests/interop/js); the modules of the Go client and go-ethereum (tests/interop/go and geth); and a JDK from the
# system. A part that its registry does not give is said by name, and so is each test that needs it.
set -eu
: "${PYTHON:=python3}"
installed="$PWD/.tools/interop"
mkdir -p "$installed"

missing() { echo "interop: $1 gave nothing: the tests that need it are left out, and fail in CI" >&2; }

python_part() {
    stamp="$installed/python/.installed"
    [ -f "$stamp" ] && [ "$stamp" -nt requirements/interop.txt ] && return 0
    echo "interop: installing what requirements/interop.txt pins into .tools/interop/python"
    sh tools/uv.sh &&
        .tools/uv/bin/uv venv --quiet --no-project --clear --python "$PYTHON" "$installed/python" &&
        sh tools/again.sh .tools/uv/bin/uv pip install --quiet --python "$installed/python/bin/python" --require-hashes \
            -r requirements/interop.txt &&
        touch "$stamp"
}

go_part() {
    rm -f "$installed/go"
    go="$(sh tools/go.sh tests/interop/geth/go.mod)" || return 1
    again="$PWD/tools/again.sh"
    for module in go geth; do
        (cd "tests/interop/$module" && GOTOOLCHAIN=local GOFLAGS=-mod=readonly sh "$again" "$go" mod download) || return 1
    done
    echo "$go" >"$installed/go"
}

sh tools/programs.sh interop || missing "the system's packages"
python_part || missing "PyPI"
sh tools/js.sh tests/interop/js || missing "the npm registry"
go_part || missing "the Go module proxy"
