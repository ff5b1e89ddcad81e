#!/bin/sh
# Makes sure that there is a Chromium for the explorer's tests. CHROMIUM=... names one that is not on the path.
# Without one, and without the right to install it, those tests are left out and say so; in CI that is a failure.
set -eu

for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    [ -n "$name" ] && command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "browser: installing Chromium"
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium >/dev/null
    exit 0
fi
echo "browser: no Chromium found: install Chromium or Chrome, or name one with CHROMIUM=..." >&2
[ "${CI:-}" != true ] || exit 1
echo "browser: the explorer's tests are left out" >&2
