#!/bin/sh
# Makes a bare Debian for the tests of docs/production.md: .tools/clean-root/root, and beside it the wheels of what the
# node needs. The packages that the page installs are in its cache, so that the tests need no network.
# Needs root and debootstrap. Takes a minute, once.
set -eu
: "${PYTHON:=python3}"
tools="$PWD/.tools/clean-root"
suite=bookworm
base=systemd-sysv,dbus,iproute2,ca-certificates
packages="python3-venv curl openssl chrony nginx haproxy caddy"
python_version=3.11 # that of the suite

# Whatever it is made from is in its name, so that a change makes it again.
mkdir -p .tools
exec 9>.tools/clean-root.lock
flock 9
made="$(cat tools/clean_root.sh requirements/runtime.txt | sha256sum | cut -c 1-16)"
[ ! -e "$tools/$made" ] || exit 0

echo "clean root: making a bare Debian in .tools/clean-root"
rm -rf "$tools"
mkdir -p "$tools/root" "$tools/wheels"
# The mirror of this machine, if that is a Debian.
mirror="$(sed -n 's/^URIs: *\([^ ]*debian\)\/*$/\1/p; s/^deb \([^ ]*debian\)\/* .*/\1/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)"
debootstrap --variant=minbase --include="$base" "$suite" "$tools/root" "${mirror:-http://deb.debian.org/debian}" >"$tools/log" 2>&1 ||
    { tail "$tools/log" >&2; exit 1; }
# Offline, `apt-get update` is to end at once and to leave everything as it is.
cat >"$tools/offline" <<'END'
APT::Install-Recommends "false";
Acquire::http::Proxy "http://127.0.0.1:9";
Acquire::Retries "0";
END
chroot "$tools/root" sh -c "apt-get -qq update && apt-get -qq install -y --no-install-recommends --download-only $packages" >>"$tools/log"
mv "$tools/offline" "$tools/root/etc/apt/apt.conf.d/99offline"
set --
for glibc in 36 35 34 31 28 27 17 5; do set -- "$@" --platform "manylinux_2_${glibc}_$(uname -m)"; done
"$PYTHON" -m pip download --quiet --no-deps --only-binary :all: --python-version "$python_version" --implementation cp \
    "$@" --platform "manylinux2014_$(uname -m)" --platform "linux_$(uname -m)" \
    -r requirements/runtime.txt -d "$tools/wheels"
touch "$tools/$made"
