#!/bin/sh
# Installs the JavaScript packages that the tests need, exactly as tests/js/package-lock.json pins them.
set -eu
cd tests/js
stamp="node_modules/.package-lock.json"

die() { echo "js: $*" >&2; exit 1; }

[ -f "$stamp" ] && [ "$stamp" -nt package-lock.json ] && exit 0
command -v npm >/dev/null || die "npm not found: install Node.js 20 or newer, which brings it"
echo "js: installing into tests/js/node_modules"
npm ci --silent
touch "$stamp"
