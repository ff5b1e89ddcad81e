"""A program that makes the files of `cometbft init` as far as we touch them: with real keys, but it runs no chain."""

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from cairn.cli.network.homes import CONFIGURATION, LOOPBACK, Site, engine_settings
from cairn.cli.network.peers import Peers
from cairn.domain.ed25519 import public_key_of

MOST_HOMES = 8
STATE_SYNC = ("enable", "rpc_servers", "trust_height", "trust_hash", "trust_period", "discovery_time")
# A shell starts in a hundredth of the time that Python takes.
_PROGRAM = """#!/bin/sh
set -eu
[ "$1" != version ] || { echo 0.38.25; exit 0; }
for home in "$@"; do :; done
here="${0%/*}/.stand-in"
[ "$1" != gen-validator ] || { echo "{\\"Key\\": $(cat "$here/0-next.json")}"; exit 0; }
mkdir -p "$home/config" "$home/data"
echo '{}' > "$home/data/priv_validator_state.json"
echo '{}' > "$home/config/genesis.json"
cp "$here/config.toml" "$home/config/config.toml"
for number in $(cat "$here/numbers"); do
    if mv "$here/$number-node.json" "$home/config/node_key.json" 2>/dev/null; then
        mv "$here/$number-validator.json" "$home/config/priv_validator_key.json"
        exit 0
    fi
done
echo "no key is left" >&2
exit 1
"""


def make_stand_in(directory: Path) -> Path:
    """The program, in a file that can be run. It makes the keys of 8 homes at most."""
    hidden = directory / ".stand-in"
    hidden.mkdir()
    settings = [*CONFIGURATION, *engine_settings(Site("any", LOOPBACK, 9, is_alone=True), Peers(()))]
    (hidden / "config.toml").write_text(_config([*settings, *(f"statesync.{key}" for key in STATE_SYNC)]))
    (hidden / "numbers").write_text(" ".join(map(str, range(MOST_HOMES))))
    for number in range(MOST_HOMES):
        for kind in ("node", "validator", "next"):
            (hidden / f"{number}-{kind}.json").write_text(json.dumps(_key(f"{number} {kind}")))
    program = directory / "cometbft"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    return program


def _config(paths: Iterable[str]) -> str:
    sections: dict[str, list[str]] = {"": ["priv_validator_laddr"]}
    for path in paths:
        section, _, key = path.rpartition(".")
        sections.setdefault(section, []).append(key)
    return "".join(
        (f"[{section}]\n" if section else "") + "".join(f'{key} = ""\n' for key in dict.fromkeys(keys))
        for section, keys in sections.items()
    )


def _key(source: str) -> object:
    seed = hashlib.sha256(source.encode()).digest()
    public = public_key_of(seed)
    values = {"pub_key": public, "priv_key": seed + public}
    return {name: {"value": base64.b64encode(value).decode()} for name, value in values.items()}
