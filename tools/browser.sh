#!/bin/sh
# Makes sure that there is a Chromium for the explorer's tests. CHROMIUM=... names one that is not on the path.
set -eu

die() { echo "browser: $*" >&2; exit 1; }

for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    [ -n "$name" ] && command -v "$name" >/dev/null && exit 0
done
command -v apt-get >/dev/null || die "no Chromium found: install Chromium or Chrome, or name one with CHROMIUM=..."
[ "$(id -u)" = 0 ] || die "no Chromium found: run 'sudo apt-get install chromium' and try again"
echo "browser: installing Chromium"
apt-get -qq update && apt-get -qq install -y chromium >/dev/null
