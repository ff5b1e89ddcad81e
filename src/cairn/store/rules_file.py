"""By which version of the rules the blocks of a network's chain were made: DIR/RULES, beside the chain.

A line for each version: its number, and the first height with it. Without the file it is the first version of all.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cairn.domain.errors import AnotherVersionNeeded, Corrupt, StoreUnavailable
from cairn.domain.rules import RULES_VERSION
from cairn.store.directory import is_there, rules_path, write_file

FIRST_RULES_VERSION = 2
"""Chains that were begun before there was this file have it."""


class RulesSince(msgspec.Struct, frozen=True):
    version: int
    height: int
    """Of the first block that is made by them; 0 if the chain was begun with them."""


FIRST_RULES = (RulesSince(FIRST_RULES_VERSION, 0),)


def settle_rules(directory: Path, head: int, halt_height: int, base: int = 0) -> RulesSince:
    """The rules of the blocks after `head`: this program's. Written down if they are new from here on.

    The operators agree on a change by `halt_height`: up to that block the old rules are valid, then the new ones.
    Raises `AnotherVersionNeeded`, and then nothing was changed; or `Corrupt` or `StoreUnavailable`.
    """
    # Of the state at `base`, genesis or a snapshot, CometBFT checks whether these are the network's rules.
    kept = read_rules(directory) if head > base else (RulesSince(RULES_VERSION, 0),)
    # What was to begin with a block that was never made has not begun.
    begun = begun_by(kept, head)
    now = begun[-1]
    if now.version == RULES_VERSION:
        if halt_height and head >= halt_height and now.height != halt_height + 1:
            raise AnotherVersionNeeded(
                f"the chain is at block {head}, and halt_height is {halt_height}: install the version that goes on "
                "from there, or remove halt_height"
            )
        settled = begun
    elif now.version < RULES_VERSION and head == halt_height:
        settled = (*begun, RulesSince(RULES_VERSION, head + 1))
    else:
        raise AnotherVersionNeeded(_explain(directory, now, head, halt_height))
    write_rules(directory, settled)
    return settled[-1]


def begun_by(rules: Sequence[RulesSince], height: int) -> tuple[RulesSince, ...]:
    """Those by which blocks up to `height` were made."""
    return tuple(each for each in rules if each.height <= height)


def are_sound(rules: Sequence[RulesSince]) -> bool:
    """Whether they begin with the chain, and each higher version later."""
    heights, versions = [each.height for each in rules], [each.version for each in rules]
    return heights[:1] == [0] and all(numbers == sorted(set(numbers)) for numbers in (heights, versions))


def _explain(directory: Path, now: RulesSince, head: int, halt_height: int) -> str:
    found = (
        f"the chain in {directory} is at block {head} with rules of version {now.version}; this program has version "
        f"{RULES_VERSION}"
    )
    if now.version > RULES_VERSION:
        return f"{found}: install the newer one again"
    until = f"until block {halt_height}, the halt_height" if halt_height > head else "until the agreed halt_height"
    return f"{found}: run one with version {now.version} {until}; see docs/upgrades.md"


def read_rules(directory: Path) -> tuple[RulesSince, ...]:
    """What the file says. Raises `Corrupt` or `StoreUnavailable`."""
    path = rules_path(directory)
    if not is_there(path):
        return FIRST_RULES
    try:
        lines = path.read_text("ascii").splitlines()
        rules = tuple(RulesSince(*map(int, line.split(" from block "))) for line in lines)
    except OSError as failure:
        raise StoreUnavailable(f"cannot read {path}: {failure}") from failure
    except (ValueError, TypeError):
        rules = ()
    if not are_sound(rules):
        raise Corrupt(f"{path} does not say by which rules the blocks were made")
    return rules


def write_rules(directory: Path, rules: Sequence[RulesSince]) -> None:
    """Write the file, unless it says so already. Raises `StoreUnavailable`."""
    path, content = rules_path(directory), "".join(f"{each.version} from block {each.height}\n" for each in rules)
    try:
        if not is_there(path) or path.read_text("ascii", "replace") != content:
            write_file(path, content.encode())
    except OSError as failure:
        raise StoreUnavailable(f"cannot write {path}: {os.strerror(failure.errno or 0)}") from failure
