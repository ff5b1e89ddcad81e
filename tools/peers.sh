#!/bin/sh
# Installs what `make bench-peers` compares with into .tools/peers, each part pinned: anvil, hardhat and ganache,
# and geth, built from its Go module (requirements/peers). A part that its registry does not give is said
# by name, and is left out of the comparison.
set -eu
: "${PYTHON:=python3}"
root="$PWD"
module="$root/requirements/peers/geth"
tools="$root/.tools/peers"
version="$(sed -n 's|.*github.com/ethereum/go-ethereum v||p' "$module/go.mod")"

missing() { echo "peers: $1 gave nothing: the comparison is without $2" >&2; }

geth_part() {
    "$tools/geth" version 2>/dev/null | grep -q "^Version: $version-" && return 0
    go="$(sh tools/go.sh "$module/go.mod")" || return 1
    echo "peers: building geth $version; the first time this takes some minutes"
    mkdir -p "$tools"
    (cd "$module" && GOTOOLCHAIN=local GOWORK=off GOFLAGS="-mod=readonly -buildvcs=false -trimpath" \
        sh "$root/tools/again.sh" "$go" build -ldflags "-s -w" -o "$tools/geth.new" github.com/ethereum/go-ethereum/cmd/geth) || return 1
    mv "$tools/geth.new" "$tools/geth"
}

# Not beside the lock file: checks of our texts would read what is installed.
js_part() {
    mkdir -p "$tools/js"
    for file in requirements/peers/.npmrc requirements/peers/*.json bench/peers/hardhat.config.mjs; do
        cmp -s "$file" "$tools/js/${file##*/}" || cp "$file" "$tools/js/"
    done
    sh tools/js.sh "$tools/js"
}

js_part || missing "the npm registry" "anvil, hardhat and ganache"
geth_part || missing "the Go module proxy" "geth"
