#!/bin/sh
# Creates the virtual environment and installs exactly what requirements/$1.txt pins, and the checkout itself.
set -eu
: "${PYTHON:=python3}" "${VENV:=.venv}"

die() { echo "setup: $*" >&2; exit 1; }

command -v "$PYTHON" >/dev/null || die "$PYTHON not found: install Python 3.11 or newer, or name one with make PYTHON=..."
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "$("$PYTHON" -V 2>&1) is too old: Python 3.11 or newer is needed; name one with make PYTHON=..."

# Debian and Ubuntu ship python3 without ensurepip.
if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    package="$("$PYTHON" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')"
    command -v apt-get >/dev/null || die "this Python has no venv module: install it with your package manager"
    [ "$(id -u)" = 0 ] || die "this Python has no venv module: run 'sudo apt-get install $package' and try again"
    apt-get -qq update && apt-get -qq install -y "$package" >/dev/null
fi

# An environment of another Python, or one whose directory was moved, cannot be repaired.
"$VENV/bin/python" -m pip --version >/dev/null 2>&1 && head -1 "$VENV/bin/pip" | grep -qF "$PWD/" ||
    { rm -rf "$VENV" && "$PYTHON" -m venv "$VENV"; }
echo "setup: installing into $VENV"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    -r requirements/build.txt -r "requirements/$1.txt"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
