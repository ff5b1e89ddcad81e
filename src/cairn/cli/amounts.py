"""Money as people write it and as the chain counts it: whole wei. Exact both ways; a float never touches an amount."""

import re
from typing import Literal

from cairn.domain.errors import InvalidConfig
from cairn.domain.genesis import COIN, GWEI
from cairn.domain.types import MAX_UINT256

UNITS = {"wei": 1, "gwei": GWEI, "coin": COIN, "coins": COIN, "ether": COIN}
_match = re.compile(r"(?P<whole>[0-9]{1,78})(?:\.(?P<part>[0-9]{1,78}))? ?(?P<unit>[a-z]*)").fullmatch

COINS_FROM = COIN // 1_000
"""Amounts from here on are shown in coins, smaller ones in gwei or wei."""

PlainUnit = Literal["wei", "coins"]
"""What a number without a unit is."""
_PLAIN_EXAMPLES: dict[PlainUnit, str] = {"wei": "whole wei such as 1000", "coins": "a number of coins such as 1000"}


def parse_amount(text: str, label: str, plain_unit: PlainUnit = "wei") -> int:
    """Read `1.5coins`, `2gwei`, `10wei` or a plain number. Raises `InvalidConfig` that names `label`."""
    found = _match(text)
    unit = UNITS.get(found["unit"] or plain_unit) if found else None
    if found is None or unit is None:
        example = _PLAIN_EXAMPLES[plain_unit]
        raise InvalidConfig(f"{label}: {text!r} is not an amount; write 1.5coins, 20gwei, or {example}")
    part = (found["part"] or "").rstrip("0")
    scale: int = 10 ** len(part)
    if unit % scale:
        if not found["unit"] and plain_unit == "wei":
            raise InvalidConfig(f"{label}: {text} needs a unit, such as {text}coins; a plain number is whole wei")
        raise InvalidConfig(f"{label}: {text} is not a whole number of wei; a coin has 18 decimals")
    wei = int(found["whole"] + part) * (unit // scale)
    if wei > MAX_UINT256:
        raise InvalidConfig(f"{label}: {text} is more than 2^256-1 wei")
    return wei


def format_amount(wei: int) -> str:
    """All of it, in the unit that reads best: `1.5 coins`, `21,000 gwei`, `7 wei`."""
    if wei >= COINS_FROM:
        return f"{_decimal(wei, COIN)} {'coin' if wei == COIN else 'coins'}"
    return f"{_decimal(wei, GWEI)} gwei" if wei >= GWEI else f"{wei} wei"


def exact_amount(wei: int) -> str:
    """The amount, and beside it how many wei that is."""
    shown = format_amount(wei)
    return shown if shown.endswith(" wei") else f"{shown} ({wei} wei)"


def in_coins(wei: int) -> str:
    """The number of coins, exactly, without the unit: for columns, which have one unit."""
    sign = "−" if wei < 0 else ""
    return f"{sign}{_decimal(abs(wei), COIN)}"


def _decimal(wei: int, unit: int) -> str:
    whole, part = divmod(wei, unit)
    digits = f"{part:0{len(str(unit)) - 1}d}".rstrip("0")
    return f"{whole:,}.{digits}" if digits else f"{whole:,}"
