#!/bin/sh
# Makes sure that the programs are here which tests use and which come from the system: curl, ip, a C compiler,
# nginx, HAProxy, a Chromium, a PostgreSQL server, Prometheus, Alertmanager, systemd-nspawn, Podman (CHROMIUM=..., NGINX=... and INITDB=... name one that is not on the path);
# with `interop`, a JDK. Run as root on Debian
# or Ubuntu, it installs them. Otherwise the tests that need them are left out, and say so; in CI that is a failure.
set -eu

# need PACKAGE COMMAND...: any of the commands will do.
need() {
    package="$1"
    shift
    for name in "$@"; do
        [ -n "$name" ] && command -v "$name" >/dev/null && return
    done
    missing="$missing $package"
}

missing=
if [ "${1:-}" = interop ]; then
    need default-jdk-headless javac
else
    need curl curl
    need "iproute2 util-linux" ip
    need "gcc libc6-dev" cc gcc clang
    # The shell has no window to draw and takes half the processor time of a whole Chromium.
    need "chromium-headless-shell fonts-liberation" "${CHROMIUM:-}" chromium-headless-shell chromium chromium-browser google-chrome
    need nginx-light "${NGINX:-}" nginx /usr/sbin/nginx
    need haproxy "${HAPROXY:-}" haproxy /usr/sbin/haproxy
    need prometheus prometheus
    need prometheus-alertmanager prometheus-alertmanager alertmanager
    need postgresql "${INITDB:-}" initdb /usr/lib/postgresql/*/bin/initdb
    # They need root: without it, the tests that boot a machine cannot run anyway.
    if [ "$(id -u)" = 0 ]; then
        need systemd-container systemd-nspawn
        need "debootstrap debian-archive-keyring" debootstrap
        need podman podman
        need podman-compose podman-compose
        need buildah buildah
        need runc runc
        need catatonit catatonit
    fi
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "programs: installing$missing"
    sh tools/again.sh apt-get -qq update
    # Ubuntu has a whole Chromium only.
    apt-cache show chromium-headless-shell >/dev/null 2>&1 ||
        missing=$(echo "$missing" | sed s/chromium-headless-shell/chromium/)
    # RUNLEVEL: a package must not start a server of its own. Tests start theirs.
    # shellcheck disable=SC2086 # one word for each package
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 sh tools/again.sh \
        apt-get -qq install -y --no-install-recommends $missing >/dev/null
    exit 0
fi
echo "programs: not found:$missing. Install what is missing with your package manager" >&2
[ "${CI:-}" != true ] || exit 1
echo "programs: the tests that need it are left out" >&2
