"""Whether what a verifier says is proven is true on a toy chain, as the chain itself knows it."""

from typing import Any

from eth_utils.crypto import keccak

from tests.support.proof_chain import Block, Held, Json, Paid, ProofChain, hexed


def is_true(chain: ProofChain, report: Json) -> bool:
    """Every fact of the report, and who signed it."""
    checks = {
        "finality": _is_block,
        "receipt": _is_payment,
        "account": _is_balance,
        "statement": _is_statement,
        "history": _are_blocks,
    }
    return checks[report["kind"]](chain, report) and _is_signed(chain, report["signed"])


def _block_at(chain: ProofChain, height: int) -> Block | None:
    return chain.blocks[height] if 0 <= height <= chain.height else None


def _is_block(chain: ProofChain, report: Json) -> bool:
    block = _block_at(chain, report["height"])
    return block is not None and (hexed(block.hash), block.time) == (report["hash"], report["time"])


def _are_blocks(chain: ProofChain, report: Json) -> bool:
    is_later = report["first"]["height"] < report["second"]["height"]
    return is_later and all(_is_block(chain, report[name]) for name in ("first", "second"))


def _payment_json(paid: Paid) -> Json:
    return {
        "from": hexed(paid.sender),
        "to": hexed(paid.to),
        "value": paid.value,
        "data": hexed(paid.data),
        "nonce": paid.nonce,
        "fee": paid.fee,
        "transaction": hexed(keccak(paid.raw)),
    }


def _is_payment(chain: ProofChain, report: Json) -> bool:
    others = ("kind", "signed", "height", "time", "hash", "chain", "cautions")
    said = {key: value for key, value in report.items() if key not in others}
    return _is_block(chain, report) and said in [_payment_json(paid) for paid in chain.blocks[report["height"]].paid]


def _held(chain: ProofChain, address: str, height: int) -> Held | None:
    return chain.blocks[height].held.get(bytes.fromhex(address[2:])) if height >= 0 else None


def _is_balance(chain: ProofChain, report: Json) -> bool:
    if report["height"] > chain.height:
        return False
    held = _held(chain, report["address"], report["height"])
    known = (held or Held())[:2]
    return known == (report["balance"], report["nonce"]) and report["exists"] == (held is not None)


def _is_statement(chain: ProofChain, report: Json) -> bool:
    address, first, last = report["address"], report["from"], report["to"]
    if not first <= last <= chain.height:
        return False
    for said, height in ((report["opening"], first - 1), (report["closing"], last)):
        held = _held(chain, address, height) or Held()
        if said != {"balance": held.balance, "nonce": held.nonce}:
            return False
    own = bytes.fromhex(address[2:])
    if [entry["height"] for entry in report["entries"]] != chain.touches(own, first, last):
        return False
    ends = [block["height"] for block in report["ends"]]
    if ends != sorted({*ends} & {first - 1, first, last, last + 1}):
        return False
    if not all(_is_block(chain, block) for block in report["ends"]):
        return False
    return all(_is_entry(chain, own, entry) for entry in report["entries"])


def _is_entry(chain: ProofChain, own: bytes, entry: Json) -> bool:
    """The payments are those of the block. One that moves nothing to the account may be left out."""
    block = chain.blocks[entry["height"]]
    paid = [each for each in block.paid if own in (each.sender, each.to)]
    # To the proposer, what was received cannot be told from fees: the format says so.
    needed = [each for each in paid if each.sender == own or (each.value and own != block.proposer)]
    said, known = entry["payments"], [_payment_json(each) for each in paid]
    is_whole = all(_payment_json(each) in said for each in needed)
    held = block.held[own]
    return (
        is_whole
        and all(each in known for each in said)
        and _is_block(chain, entry)
        and entry["balance"] == held.balance
    )


def _is_signed(chain: ProofChain, signed: Json) -> bool:
    if not _is_block(chain, signed):
        return False
    by: Any = signed["by"]
    if isinstance(by, str):
        return True
    # Nobody signs two blocks at one height, but several headers of the engine may name one block.
    known = [chain.validators_at(height) for height in range(1, chain.height + 3)]
    for validators in known:
        powers = {hexed(each.key): each.power for each in validators}
        if set(by) <= set(powers) and signed["of"] == sum(powers.values()):
            return len(set(by)) == len(by) and signed["power"] == sum(powers[key] for key in by)
    return False
