"""Writes the JSON vectors beside this file: `python tests/vectors/generate.py`.

Nothing here comes from the node's own code. Transactions and addresses are eth-account's; headers, roots and the state
hash are computed by the plainest reading of their definition, with `rlp` and hashlib.
"""

import json
from collections.abc import Sequence
from hashlib import sha256, shake_256
from pathlib import Path

import rlp  # type: ignore[import-untyped]
from eth_account import Account
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

HERE = Path(__file__).parent
MNEMONIC = "test test test test test test test test test test test junk"

Json = dict[str, object]


def hexed(raw: bytes) -> str:
    return "0x" + bytes(raw).hex()


def seeded(label: str, size: int) -> bytes:
    """Bytes that look random and are the same on every run."""
    return shake_256(label.encode()).digest(size)


def typed_transaction(
    name: str, to: bytes, value: int, nonce: int, prices: Sequence[int], chain_id: int, data: bytes
) -> Json:
    """A transaction of type 1 if one price is given, of type 2 if the tip and the fee are."""
    key, kind = seeded("key", 32), len(prices)
    names = ("gasPrice",) if kind == 1 else ("maxPriorityFeePerGas", "maxFeePerGas")
    fields = {"nonce": nonce, "gas": 30_000, "to": to, "value": value, "data": data, "chainId": chain_id, "type": kind}
    signed = Account.sign_transaction({**fields, **dict(zip(names, prices, strict=True)), "accessList": []}, key)
    payload = bytes([kind]) + rlp.encode([chain_id, nonce, *prices, 30_000, to, value, data, []])
    return {
        "name": name,
        "type": kind,
        "privateKey": hexed(key),
        "chainId": chain_id,
        "from": Account.from_key(key).address,
        "to": to_checksum_address(to),
        "value": str(value),
        "nonce": nonce,
        "gas": 30_000,
        "data": hexed(data),
        **{each: str(price) for each, price in zip(names, prices, strict=True)},
        "signingPayload": hexed(payload),
        "signingHash": hexed(keccak(payload)),
        "signature": hexed(signed.r.to_bytes(32, "big") + signed.s.to_bytes(32, "big") + bytes([signed.v])),
        "raw": hexed(signed.raw_transaction),
        "txHash": hexed(signed.hash),
    }


def typed_transactions() -> list[Json]:
    coin, gwei, to, most = 10**18, 10**9, seeded("to", 20), 2**256 - 1
    last_chain = (2**64 - 1) // 2 - 36
    rows: list[tuple[str, int, int, list[int], int]] = [
        ("type 1", coin, 0, [gwei], 1337),
        ("type 1, all zero", 0, 0, [0], 1),
        ("type 1, all largest", most, 2**64 - 1, [most], last_chain),
        ("type 2", coin, 0, [gwei, 3 * gwei], 1337),
        ("type 2 without a tip", coin, 1, [0, gwei], 1337),
        ("type 2, the tip is cut", coin, 2, [gwei, gwei + 5], 1337),
        ("type 2, all zero", 0, 0, [0, 0], 1),
        ("type 2, one byte boundaries", 128, 127, [127, 128], 128),
        ("type 2, all largest", most, 2**64 - 1, [most, most], last_chain),
    ]
    return [
        typed_transaction(name, to, value, nonce, prices, chain, b"") for name, value, nonce, prices, chain in rows
    ] + [
        typed_transaction(f"type {len(prices)}, {name}", to, coin, 3, prices, 1337, data)
        for name, data in DATA.items()
        for prices in ([gwei], [gwei, 3 * gwei])
    ]


DATA = {
    "a reference": b"invoice 4711",
    "one small byte": b"\x7f",
    "one byte": b"\x80",
    "a zero byte": b"\0",
    "the longest string with a short head": seeded("data", 55),
    "the shortest string with a long head": seeded("data", 56),
    "the most data": seeded("data", 256),
}
"""Data of a transfer: what RLP writes in its own ways."""


def transaction(
    name: str, key: bytes, to: bytes, value: int, nonce: int, gas: int, gas_price: int, chain_id: int, data: bytes = b""
) -> Json:
    fields = {"nonce": nonce, "gasPrice": gas_price, "gas": gas, "to": to, "value": value, "data": data}
    signed = Account.sign_transaction({**fields, "chainId": chain_id}, key)
    parity = signed.v - 2 * chain_id - 35
    payload = rlp.encode([nonce, gas_price, gas, to, value, data, chain_id, 0, 0])
    return {
        "name": name,
        "privateKey": hexed(key),
        "chainId": chain_id,
        "from": Account.from_key(key).address,
        "to": to_checksum_address(to),
        "value": str(value),
        "nonce": nonce,
        "gas": gas,
        "gasPrice": str(gas_price),
        "data": hexed(data),
        "signingPayload": hexed(payload),
        "signingHash": hexed(keccak(payload)),
        "signature": hexed(signed.r.to_bytes(32, "big") + signed.s.to_bytes(32, "big") + bytes([parity])),
        "raw": hexed(signed.raw_transaction),
        "txHash": hexed(signed.hash),
    }


def transactions() -> list[Json]:
    coin, gwei = 10**18, 10**9
    # The example that EIP-155 itself publishes.
    vectors = [transaction("eip-155 example", b"\x46" * 32, b"\x35" * 20, coin, 9, 21_000, 20 * gwei, 1)]
    key, to = seeded("key", 32), seeded("to", 20)
    edges: list[tuple[str, bytes, int, int, int, int, int]] = [
        ("all zero", bytes(20), 0, 0, 0, 0, 1),
        ("one byte boundary 127", to, 127, 127, 127, 127, 1337),
        ("one byte boundary 128", to, 128, 128, 128, 128, 1337),
        ("two byte boundary 255", to, 255, 255, 21_000, 256, 1337),
        ("a dev transfer", to, coin, 0, 21_000, gwei, 1337),
        ("largest value", to, 2**256 - 1, 1, 21_000, gwei, 1337),
        ("largest gas price", to, 1, 1, 21_000, 2**256 - 1, 1337),
        ("largest nonce and gas", to, 1, 2**64 - 1, 2**64 - 1, gwei, 1337),
        ("largest chain id", to, 1, 1, 21_000, gwei, (2**64 - 1) // 2 - 36),
        ("to oneself", bytes.fromhex(Account.from_key(key).address[2:]), coin, 3, 50_000, 2 * gwei, 1337),
    ]
    for name, recipient, value, nonce, gas, gas_price, chain_id in edges:
        vectors.append(transaction(name, key, recipient, value, nonce, gas, gas_price, chain_id))
    for name, data in DATA.items():
        vectors.append(transaction(name, key, to, coin, 4, 30_000, gwei, 1337, data))
    short: dict[str, Json] = {}
    # One signature in 256 has an r (or an s) with a leading zero byte, which RLP drops: find one of each.
    for nonce in range(10_000):
        vector = transaction("", key, to, coin, nonce, 21_000, gwei, 1337)
        r, s = str(vector["signature"])[2:66], str(vector["signature"])[66:130]
        for name, part in (("short r", r), ("short s", s)):
            if part.startswith("00"):
                short.setdefault(name, {**vector, "name": name})
        if len(short) == 2:
            break
    return vectors + [short["short r"], short["short s"]]


def addresses() -> Json:
    Account.enable_unaudited_hdwallet_features()
    accounts = [Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{index}") for index in range(10)]
    spelled = [seeded(f"address {index}", 20) for index in range(20)] + [bytes(20), b"\xff" * 20, b"\x11" * 20]
    return {
        "mnemonic": MNEMONIC,
        "accounts": [{"privateKey": hexed(account.key), "address": account.address} for account in accounts],
        "eip55": [{"lower": hexed(raw), "checksum": to_checksum_address(raw)} for raw in spelled],
    }


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, word for word."""
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0]).digest()
    split = _split(len(leaves))
    return sha256(b"\1" + merkle_root(leaves[:split]) + merkle_root(leaves[split:])).digest()


def transactions_root(leaves: Sequence[bytes]) -> bytes:
    """The tree's root; of a block without transactions Ethereum's, which is of an empty trie."""
    return merkle_root(leaves) if leaves else keccak(rlp.encode(b""))


def merkle_path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """PATH of RFC 6962, section 2.1.1, word for word."""
    if len(leaves) <= 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*merkle_path(index, leaves[:split]), merkle_root(leaves[split:])]
    return [*merkle_path(index - split, leaves[split:]), merkle_root(leaves[:split])]


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)


def merkle() -> list[Json]:
    vectors: list[Json] = []
    for size in (0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 33):
        leaves = [seeded(f"leaf {index}", 32) for index in range(size)]
        vectors.append(
            {
                "leaves": [hexed(leaf) for leaf in leaves],
                "root": hexed(transactions_root(leaves)),
                "proofs": [[hexed(node) for node in merkle_path(index, leaves)] for index in range(size)],
            }
        )
    return vectors


def states() -> list[Json]:
    """Two blocks on an empty state: the first touches all but the last account, the second every third of all."""
    vectors: list[Json] = []
    for count in (1, 2, 3, 7, 100):
        blocks: list[list[tuple[bytes, int, int]]] = [
            [(seeded(f"account {index}", 20), 10**18 * index + index, index % 5) for index in range(count)],
            [(seeded(f"account {index}", 20), 2**256 - 1 - index, 2**64 - 1) for index in range(count, -1, -3)],
        ]
        accounts: dict[bytes, tuple[int, int, int]] = {}
        vectors.append({"blocks": [touched_block(accounts, height, touched) for height, touched in enumerate(blocks)]})
    return vectors


def touched_block(
    accounts: dict[bytes, tuple[int, int, int]], height: int, touched: Sequence[tuple[bytes, int, int]]
) -> Json:
    """A block on the accounts so far, which are in the order of their creation."""
    changes = []
    for address, balance, nonce in sorted(touched):
        old_balance, old_nonce, old_height = accounts.get(address, (0, 0, 2**64 - 1))
        before = old_height.to_bytes(8, "big") + old_balance.to_bytes(32, "big") + old_nonce.to_bytes(8, "big")
        changes.append(address + before + balance.to_bytes(32, "big") + nonce.to_bytes(8, "big"))
        accounts[address] = balance, nonce, height
    order = sorted(accounts)
    following = dict(zip(order, [*order[1:], order[0]], strict=True))
    leaves = [keccak(b"")]
    for address, (balance, nonce, last) in accounts.items():
        tail = nonce.to_bytes(8, "big") + last.to_bytes(8, "big") + following[address]
        leaves.append(address + balance.to_bytes(32, "big") + tail)
    return {
        "touched": [
            {"address": hexed(address), "balance": str(balance), "nonce": nonce} for address, balance, nonce in touched
        ],
        "stateRoot": hexed(transactions_root(leaves)),
        "receiptsRoot": hexed(transactions_root(changes)),
    }


Row = tuple[bytes, int, bytes, str]
"""Public key, power, fee recipient and name of a validator."""


def validator_record(public_key: bytes, power: int, fee_recipient: bytes, name: str) -> bytes:
    spelled = name.encode()
    return public_key + power.to_bytes(8, "big") + fee_recipient + bytes([len(spelled)]) + spelled


def admins_record(threshold: int, addresses: Sequence[bytes]) -> bytes:
    return bytes([len(addresses), threshold]) + b"".join(addresses)


def evidence_record(kind: int, address: bytes, height: int, timestamp: int, name: str) -> bytes:
    spelled = name.encode()
    head = bytes([kind]) + address + height.to_bytes(8, "big") + timestamp.to_bytes(8, "big")
    return head + bytes([len(spelled)]) + spelled


def validator_set(
    sequence: int,
    rows: Sequence[Row],
    leaving: Row | None = None,
    admins: tuple[int, Sequence[bytes]] = (0, ()),
    evidence: Sequence[tuple[int, bytes, int, int, str]] = (),
    evidence_count: int = 0,
    set_changes: int = 0,
    set_changed_at: int = 0,
) -> Json:
    rows = sorted(rows)
    record = b"\3" + sequence.to_bytes(8, "big") + set_changes.to_bytes(8, "big") + set_changed_at.to_bytes(8, "big")
    record += len(rows).to_bytes(4, "big")
    record += b"".join(validator_record(*row) for row in rows)
    record += b"\0" if leaving is None else b"\1" + validator_record(*leaving)
    record += admins_record(*admins) + evidence_count.to_bytes(8, "big")
    record += bytes([len(evidence)]) + b"".join(evidence_record(*each) for each in evidence)
    return {
        "sequence": sequence,
        "setChanges": set_changes,
        "setChangedAt": set_changed_at,
        "validators": [_shown_validator(*row) for row in rows],
        "leaving": None if leaving is None else _shown_validator(*leaving),
        "admins": None if not admins[0] else _shown_admins(*admins),
        "evidence": [
            {"kind": kind, "address": hexed(address), "blockHeight": height, "timestamp": timestamp, "name": name}
            for kind, address, height, timestamp, name in evidence
        ],
        "evidenceCount": evidence_count,
        "record": hexed(record),
        # Without accounts the record is the only leaf.
        "stateRoot": hexed(transactions_root([keccak(record)])),
    }


def validator_update(
    chain_id: int, sequence: int, row: Row, before: tuple[int, int, int, int], keys: Sequence[bytes]
) -> Json:
    power, total, count, namesakes = before
    known = (
        power.to_bytes(8, "big") + total.to_bytes(8, "big") + count.to_bytes(4, "big") + namesakes.to_bytes(4, "big")
    )
    shown: Json = {
        "validator": _shown_validator(*row),
        "before": {"power": power, "totalPower": total, "validators": count, "namesakes": namesakes},
    }
    return signed_update(chain_id, sequence, b"\0" + validator_record(*row) + known, shown, keys)


def admins_update(
    chain_id: int,
    sequence: int,
    admins: tuple[int, Sequence[bytes]],
    replaced: tuple[int, Sequence[bytes]],
    keys: Sequence[bytes],
) -> Json:
    shown: Json = {"admins": _shown_admins(*admins), "replaces": _shown_admins(*replaced)}
    change = b"\1" + admins_record(*admins) + admins_record(*replaced)
    return signed_update(chain_id, sequence, change, shown, keys)


def signed_update(chain_id: int, sequence: int, change: bytes, shown: Json, keys: Sequence[bytes]) -> Json:
    unsigned = sequence.to_bytes(8, "big") + change
    genesis = seeded(f"genesis {chain_id}", 32)
    digest = keccak(b"cairn governance update" + chain_id.to_bytes(8, "big") + genesis + unsigned)
    signed = [Account.unsafe_sign_hash(digest, key) for key in keys]
    signatures = [one.r.to_bytes(32, "big") + one.s.to_bytes(32, "big") + bytes([one.v - 27]) for one in signed]
    return {
        "chainId": chain_id,
        "genesis": hexed(genesis),
        "sequence": sequence,
        **shown,
        "privateKeys": [hexed(key) for key in keys],
        "signedHash": hexed(digest),
        "encoded": hexed(b"\x81" + unsigned + bytes([len(signatures)]) + b"".join(signatures)),
    }


def _shown_admins(threshold: int, addresses: Sequence[bytes]) -> Json:
    return {"threshold": threshold, "addresses": [hexed(address) for address in addresses]}


def _shown_validator(public_key: bytes, power: int, fee_recipient: bytes, name: str) -> Json:
    return {"publicKey": hexed(public_key), "power": power, "feeRecipient": hexed(fee_recipient), "name": name}


def validators() -> Json:
    rows = [
        (seeded(f"validator {index}", 32), 10 * index, seeded(f"fees {index}", 20), f"node{index}")
        for index in range(1, 5)
    ]
    widest = (b"\xfe" * 32, 2**60 // 1_000, b"\xff" * 20, "~" * 64)
    keys = [seeded("admin 1", 32), seeded("admin 2", 32)]
    admins = [seeded(f"administrator {index}", 20) for index in range(3)]
    evidence = [(1, seeded("engine 1", 20), 12, 1_700_000_000, "node1"), (2, b"\xff" * 20, 2**63, 0, "")]
    return {
        "sets": [
            validator_set(0, rows[:1]),
            validator_set(7, rows[:3], rows[3], (2, admins), evidence, 9, set_changes=5, set_changed_at=1_234),
            validator_set(2**64 - 1, [widest, *rows], admins=(1, admins[:1])),
        ],
        "updates": [
            validator_update(1337, 0, rows[0], (0, 0, 0, 0), keys[:1]),
            validator_update(1, 7, (rows[1][0], 0, rows[1][2], ""), (20, 100, 4, 1), keys),
            validator_update(2**32, 2**64 - 1, widest, (2**60 // 1_000, 1_000 * (2**60 // 1_000), 1_000, 999), []),
            admins_update(1337, 1, (2, [*admins[1:], b"\xff" * 20]), (2, admins), keys),
        ],
    }


def header(row: Sequence[bytes | int]) -> Json:
    """Ethereum's header since London, word for word: sixteen fields in the order of its Yellow Paper and EIP-1559."""
    parent, proposer, state_root, tx_root, changes_root, history_root, *numbers = row
    height, gas_limit, gas_used, timestamp, chain_id, base_fee, count = numbers
    assert isinstance(chain_id, int)
    assert isinstance(count, int)
    raw = rlp.encode(
        [
            parent,
            keccak(rlp.encode([])),
            proposer,
            state_root,
            tx_root,
            changes_root,
            bytes(256),
            0,
            height,
            gas_limit,
            gas_used,
            timestamp,
            b"cairn\3" + chain_id.to_bytes(8, "big") + count.to_bytes(4, "big"),
            history_root,
            bytes(8),
            base_fee,
        ]
    )
    shown = [hexed(field) if isinstance(field, bytes) else field for field in row]
    # Beyond what every reader of JSON takes as an integer.
    shown[-2] = str(base_fee)
    return {**dict(zip(HEADER_FIELDS, shown, strict=True)), "encoded": hexed(raw), "hash": hexed(keccak(raw))}


HEADER_FIELDS = (
    "previousHash",
    "proposer",
    "stateRoot",
    "transactionsRoot",
    "receiptsRoot",
    "mixHash",
    "blockHeight",
    "gasLimit",
    "gasUsed",
    "timestamp",
    "chainId",
    "baseFeePerGas",
    "transactionCount",
)


def headers() -> list[Json]:
    zero, empty = bytes(32), transactions_root([])
    state, txs, parent, proposer = seeded("state", 32), seeded("txs", 32), seeded("parent", 32), seeded("p", 20)
    changes, past, last = seeded("changes", 32), seeded("history", 32), 2**64 - 1
    ones, most = b"\xff" * 32, last // 2 - 36
    return [
        header((zero, bytes(20), state, empty, changes, empty, 0, 210_000_000, 0, 0, 1, 0, 0)),
        header((parent, proposer, state, txs, changes, past, 1, 210_000_000, 21_000, 1_735_689_600, 1337, 10**9, 1)),
        header((parent, proposer, state, empty, empty, past, 2, 21_000, 0, 1_735_689_601, 1337, 10**9, 0)),
        header((ones, b"\xff" * 20, zero, zero, zero, ones, last, last, last, last, most, 2**256 - 1, 2**32 - 1)),
    ]


def files() -> dict[str, str]:
    """The text of each file, by its name."""
    vectors = {
        "transactions.json": transactions(),
        "typed_transactions.json": typed_transactions(),
        "addresses.json": addresses(),
        "merkle.json": merkle(),
        "states.json": states(),
        "headers.json": headers(),
        "validators.json": validators(),
    }
    return {name: json.dumps(content, indent=1) + "\n" for name, content in vectors.items()}


def main() -> None:
    for name, text in files().items():
        (HERE / name).write_text(text)


if __name__ == "__main__":
    main()
