#!/bin/sh
# Installs the pinned uv into .tools/uv. It needs a Python and some pip to be installed with, and changes no system.
set -eu
: "${PYTHON:=python3}"
root="$PWD"
uv="$root/.tools/uv/bin/uv"
again="$root/tools/again.sh"

die() { echo "uv: $*" >&2; exit 1; }

version="$(sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements/uv.txt)"
case "$("$uv" --version 2>/dev/null)" in "uv $version"*) exit 0 ;; esac

command -v "$PYTHON" >/dev/null || die "$PYTHON not found: install Python 3.11 or newer, or name one with make PYTHON=..."
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "$("$PYTHON" -V 2>&1) is too old: Python 3.11 or newer is needed; name one with make PYTHON=..."

# The wheel of a pip that comes with this Python or with the system, to be run as it is.
bundled_pip() {
    "$PYTHON" - <<'END'
import glob, importlib.util, os
spec = importlib.util.find_spec("ensurepip")
places = [os.path.join(os.path.dirname(spec.origin), "_bundled")] if spec and spec.origin else []
print(next((wheel for place in [*places, "/usr/share/python-wheels"] for wheel in glob.glob(place + "/pip-*.whl")), ""))
END
}

# Debian and Ubuntu ship Python without any pip. Its package can be read without being installed, so no root is needed.
packaged_pip() {
    apt="$root/.tools/apt"
    package=python3-pip-whl
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    set -- -qq -o APT::Sandbox::User=root -o Acquire::Languages=none -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt"
    cd "$apt"
    # The system's lists of packages may be missing or old.
    apt-get -qq download "$package" >&2 ||
        { sh "$again" apt-get "$@" update && sh "$again" apt-get "$@" download "$package"; } >&2 || return 1
    dpkg-deb -x "$package"_*.deb . && ls "$apt"/usr/share/python-wheels/pip-*.whl
}

echo "uv: installing $version into .tools/uv"
pip=
if ! "$PYTHON" -m pip --version >/dev/null 2>&1; then
    pip="$(bundled_pip)"
    if [ -z "$pip" ]; then
        command -v apt-get >/dev/null || die "this Python has no pip: install it with your package manager"
        echo "uv: this Python has no pip: reading one from the package python3-pip-whl"
        pip="$(packaged_pip)" || die "no pip could be had: install python3-venv and try again"
    fi
fi
PIP_ROOT_USER_ACTION=ignore PYTHONPATH="$pip" sh "$again" "$PYTHON" -m pip install --quiet --disable-pip-version-check \
    --no-warn-script-location --require-hashes --no-deps --upgrade --target .tools/uv -r requirements/uv.txt
rm -rf "$root/.tools/apt"
