#!/bin/sh
# Builds the pinned CometBFT into .tools/bin, with its own remote signer, and copies its protocol definition beside it.
# The version is in requirements/cometbft/go.mod; go.sum there pins every module by its hash.
set -eu
: "${PYTHON:=python3}"
root="$PWD"
module="$root/requirements/cometbft"
tools="$root/.tools"
version="$(sed -n 's|^require github.com/cometbft/cometbft v||p' "$module/go.mod")"

die() { echo "cometbft: $*" >&2; exit 1; }
built() {
    [ "$("$tools/bin/cometbft" version 2>/dev/null)" = "$version" ] && [ -f "$tools/proto/$version" ] &&
        [ -x "$tools/bin/priv_val_server" ]
}

built && exit 0

go="$(sh tools/go.sh "$module/go.mod")"
echo "cometbft: building $version with $("$go" env GOVERSION); the first time this takes some minutes"
export GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false -trimpath" CGO_ENABLED=0 GOWORK=off
mkdir -p "$tools/bin"
cd "$module"
build() { sh "$root/tools/again.sh" "$go" build -ldflags "-s -w" -o "$1" "github.com/cometbft/cometbft/cmd/$2"; }
build "$tools/bin/cometbft.new" cometbft
[ "$("$tools/bin/cometbft.new" version)" = "$version" ] ||
    die "built $("$tools/bin/cometbft.new" version), expected $version"
mv "$tools/bin/cometbft.new" "$tools/bin/cometbft"
# Tests sign with it; what an operator uses is theirs to choose.
build "$tools/bin/priv_val_server" priv_val_server

# The public definition that a test compares ours with, out of the same verified modules.
rm -rf "$tools/proto"
mkdir -p "$tools/proto"
cp -R "$("$go" list -m -f '{{.Dir}}' github.com/cometbft/cometbft)/proto/tendermint" "$tools/proto/"
cp -R "$("$go" list -m -f '{{.Dir}}' github.com/cosmos/gogoproto)/gogoproto" "$tools/proto/"
chmod -R u+w "$tools/proto"
touch "$tools/proto/$version"
echo "cometbft: $version is in .tools/bin"
