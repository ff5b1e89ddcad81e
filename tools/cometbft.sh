#!/bin/sh
# Builds the pinned CometBFT into .tools/bin, with our client to the application (tools/cometbft) and with its own remote
# signer, and copies its protocol definition beside it. What only tests need is built, too: CometBFT as it is released,
# in .tools/stock, and the tests of the client.
# The version is in tools/cometbft/go.mod; go.sum there pins every module by its hash.
set -eu
: "${PYTHON:=python3}"
root="$PWD"
module="$root/tools/cometbft"
tools="$root/.tools"
version="$(sed -n 's|^require github.com/cometbft/cometbft v||p' "$module/go.mod")"
sources="$(cat "$root/tools/cometbft.sh" "$module"/* | cksum)"

die() { echo "cometbft: $*" >&2; exit 1; }
# True when all is there, made from these sources.
built() {
    [ "$("$tools/bin/cometbft" version 2>/dev/null)" = "$version" ] &&
        [ "$(cat "$tools/proto/$version" 2>/dev/null)" = "$sources" ]
}

built && exit 0

go="$(sh tools/go.sh "$module/go.mod")"
echo "cometbft: building $version with $("$go" env GOVERSION); the first time this takes some minutes"
export GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false -trimpath" CGO_ENABLED=0 GOWORK=off
mkdir -p "$tools/bin" "$tools/stock"
rm -rf "$tools/proto"
cd "$module"
# $1 is the program, $2 its package. It is renamed when it is whole: the one before may be running.
build() {
    sh "$root/tools/again.sh" "$go" build -ldflags "-s -w" -o "$1.new" "$2"
    mv "$1.new" "$1"
}
# As it is released: a node must work with it just as well.
build "$tools/stock/cometbft" github.com/cometbft/cometbft/cmd/cometbft
found="$("$tools/stock/cometbft" version)"
[ "$found" = "$version" ] || die "built $found, expected $version"
build "$tools/bin/cometbft" .
# Tests sign with it; what an operator uses is theirs to choose.
build "$tools/bin/priv_val_server" github.com/cometbft/cometbft/cmd/priv_val_server
"$go" test -c -vet=off -ldflags "-s -w" -o "$tools/stock/client.test" .

# The public definition that a test compares ours with, out of the same verified modules.
mkdir -p "$tools/proto"
cp -R "$("$go" list -m -f '{{.Dir}}' github.com/cometbft/cometbft)/proto/tendermint" "$tools/proto/"
cp -R "$("$go" list -m -f '{{.Dir}}' github.com/cosmos/gogoproto)/gogoproto" "$tools/proto/"
chmod -R u+w "$tools/proto"
# Last: with this, all is there.
echo "$sources" >"$tools/proto/$version"
echo "cometbft: $version is in .tools/bin"
