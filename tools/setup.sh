#!/bin/sh
# Creates the virtual environment and installs exactly what requirements/$1.txt pins, and the checkout itself.
set -eu
: "${PYTHON:=python3}" "${VENV:=.venv}"

sh tools/uv.sh
export UV_PYTHON_DOWNLOADS=never
uv() { sh tools/again.sh .tools/uv/bin/uv "$@"; }

# An environment of another Python, or one whose directory was moved, cannot be repaired.
"$VENV/bin/python" -c '' 2>/dev/null && grep -qF "$PWD/$VENV/" "$VENV/bin/cairn" 2>/dev/null ||
    uv venv --quiet --no-project --clear --python "$PYTHON" "$VENV"

echo "setup: installing what requirements/$1.txt pins into $VENV"
# The status of the first command is lost in a pipe.
failed="$VENV/.failed"
{ uv pip install --python "$VENV/bin/python" --require-hashes -r requirements/build.txt -r "requirements/$1.txt" 2>&1 ||
    touch "$failed"; } | sed '/^ [-+~] /d'
[ ! -e "$failed" ] || { rm "$failed"; exit 1; }
uv pip install --quiet --python "$VENV/bin/python" --no-deps --no-build-isolation --editable .
