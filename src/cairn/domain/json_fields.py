"""The fields of the public JSON: their types, what they mean, their text in the OpenAPI and AsyncAPI documents, and how
numbers and bytes are read from them.

Descriptions, patterns and bounds are for those documents only. They are not checked when JSON is read, so they cost
nothing.
"""

from binascii import unhexlify
from typing import Annotated, Any

from msgspec import Meta

from cairn.domain.governance import MAX_NAME_BYTES, MAX_POWER, NAME_PATTERN
from cairn.domain.types import MAX_DATA_BYTES, MAX_UINT256, TRANSFER_GAS

MAX_INT64 = 2**63 - 1
"""The largest integer of generated clients. The node's own go to 2^64-1, but no count comes near that."""
MAX_EXACT_DOUBLE = 2**53
"""Up to here every integer is a double."""
MAX_AMOUNT_DIGITS = len(str(MAX_UINT256))
MAX_POSITION = 2**32 - 1
MAX_BATCH = 100
"""Transactions in one `POST /txs`."""
ADDRESS_FORMAT = "ethereum-address"
REFERENCE_FORMAT = "printable-text"
ANY_ADDRESS = "^0x[0-9a-fA-F]{40}$"
ANY_HASH = "^0x[0-9a-fA-F]{64}$"
PUBLIC_KEY_PATTERN = "^[A-Za-z0-9+/]{43}=$"
SIGNATURE_PATTERN = "^0x[0-9a-fA-F]{130}$"
CHECKSUMMED = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
REFERENCE = "invoice 4711"


def hex_text(data: bytes) -> str:
    """Bytes as JSON has them."""
    return "0x" + data.hex()


def about(description: str, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema)


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def described(name: str) -> Any:
    """A type whose schema is declared elsewhere under this name."""
    return Annotated[Any, Meta(extra_json_schema=ref(name))]


def titled(name: str, described: Any) -> Any:
    """A type whose schema is a component of this name."""
    return Annotated[described, Meta(title=name)]


def wei(description: str) -> Meta:
    """An amount. A client that reads it as a number needs 256 bits."""
    return about(description, **ref("Amount"))


def integer(description: str, most: int = MAX_INT64, least: int = 0) -> Meta:
    return about(description, format="int64", minimum=least, maximum=most)


def hex_bytes(size: int, description: str, digits: str = "0-9a-f") -> Meta:
    return about(description, pattern=f"^0x[{digits}]{{{2 * size}}}$")


AddressText = Annotated[str, hex_bytes(20, "0x and 40 lower-case hexadecimal digits.")]
AnyAddressText = Annotated[
    str,
    about(
        "0x and 40 hexadecimal digits. In mixed case, the EIP-55 checksum must be correct.",
        # A pattern cannot express the checksum.
        format=ADDRESS_FORMAT,
        pattern=ANY_ADDRESS,
        examples=[CHECKSUMMED],
    ),
]
HashText = Annotated[str, hex_bytes(32, "0x and 64 lower-case hexadecimal digits.")]
AnyHashText = Annotated[str, Meta(pattern=ANY_HASH)]
GenesisText = Annotated[str, hex_bytes(32, "Digest of genesis.json, which tells chains with the same id apart.")]
Height = Annotated[int, integer("Height of the block; 0 is the genesis block.")]
Time = Annotated[int, integer("Unix time in whole seconds.")]
ChainId = Annotated[int, integer("Chain id (EIP-155).")]
Position = Annotated[int, integer("Position in the block, from 0.", MAX_POSITION)]
Value = Annotated[int, wei("Wei transferred.")]
Nonce = Annotated[int, integer("Number of the transaction among its sender's, from 0.")]
Gas = Annotated[int, integer(f"Gas limit; a transfer uses {TRANSFER_GAS}, and 16 a byte of data, 4 a zero byte.")]
GasPrice = Annotated[int, wei("Wei paid per unit of gas.")]
TxType = Annotated[
    int, integer("Type of the transaction: 2 (EIP-1559), 1 (EIP-2930), or 0 (legacy), which may be left out.", 2)
]
MaxFee = Annotated[int | None, wei("Type 2 only: the most that it pays per unit of gas, in wei.")]
MaxTip = Annotated[int | None, wei("Type 2 only: the most that it pays above the base fee, per unit of gas, in wei.")]
Queued = Annotated[
    bool,
    about("True while a nonce of its sender before it is missing: no block can hold it yet. Otherwise left out."),
]
QueuedReason = Annotated[str | None, about("If it is queued: what it waits for, such as `waits for nonce 3`.")]
DataText = Annotated[
    str | None,
    about(
        "What the payment is for, in bytes: 0x and hexadecimal digits. Left out if there is none.",
        pattern=f"^0x([0-9a-f]{{2}}){{1,{MAX_DATA_BYTES}}}$",
    ),
]
ReferenceText = Annotated[
    str | None,
    about("`data` as text, if it is printable UTF-8.", minLength=1, maxLength=MAX_DATA_BYTES, examples=[REFERENCE]),
]

PublicKeyText = Annotated[str, about("Ed25519, in base64.", pattern=PUBLIC_KEY_PATTERN)]
Power = Annotated[int, integer("The weight of the validator's vote.", MAX_POWER)]
ValidatorName = Annotated[str, about("A name for people.", pattern=NAME_PATTERN, maxLength=MAX_NAME_BYTES)]
Sequence = Annotated[int, integer("How many updates were applied. The next update must have this number.")]
EngineAddress = Annotated[str, about("The validator's address in CometBFT.", pattern="^[0-9A-F]{40}$")]

# Reading them. What cannot be read is None: the caller says which field is wrong.


def find_bytes(text: object, size: int) -> bytes | None:
    """`0x` and two hexadecimal digits for each byte, of either case."""
    if not isinstance(text, str) or len(text) != 2 + 2 * size or text[:2] != "0x":
        return None
    try:
        # Not `bytes.fromhex`, which skips white space.
        return unhexlify(text[2:])
    except ValueError:
        return None


def find_data(text: object) -> bytes | None:
    """Like `find_bytes`, of any length."""
    return find_bytes(text, (len(text) - 2) // 2) if isinstance(text, str) else None


def find_decimal(text: object, most_digits: int = MAX_AMOUNT_DIGITS) -> int | None:
    """Decimal digits in a string, for writers whose numbers are doubles."""
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= most_digits:
        return int(text)
    return None


def find_integer(number: object) -> int | None:
    """An integer of JSON; 10.0 is 10, as in JSON Schema, while the double is exact."""
    if isinstance(number, float) and number.is_integer() and abs(number) <= MAX_EXACT_DOUBLE:
        return int(number)
    return number if isinstance(number, int) and not isinstance(number, bool) else None
