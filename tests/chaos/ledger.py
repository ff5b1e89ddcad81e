"""The independent ledger: what clients signed and were answered, and what a node must therefore show.

It knows nothing of the node but its public interface, and computes balances by adding and subtracting. Whatever happens
to the node: what was answered 200 is in one block, once, or still pending; nothing else than what was signed is in any
block; a block that was seen never changes; and the balances are what the blocks make them.
"""

import copy
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.pace import PATIENCE_S
from tests.support.public import PublicNode

GAS = 21_000
GAS_PRICE = 10**9
DEV_BALANCE = 10_000 * 10**18
"""Each of a dev chain's accounts has so much at the start."""
LOOKED_AT_AGAIN = 1_000
"""Newest blocks that a check reads once more; the last check reads all."""
RECENT = 2_000
_RETRY_S = 0.05


@dataclass(frozen=True, slots=True)
class Transfer:
    """A signed transfer between dev accounts and others."""

    tx_hash: str
    sender: str
    to: str
    value: int
    nonce: int
    signature: str
    kind: int = 0
    price: int = GAS_PRICE
    """What it pays for a unit of gas: of type 2, its tip is so much above the chain's price."""
    data: bytes = b""

    @property
    def gas(self) -> int:
        return GAS + sum(16 if byte else 4 for byte in self.data)

    @property
    def fee(self) -> int:
        return self.gas * self.price

    @property
    def place(self) -> tuple[str, int]:
        """Its sender and nonce: of all transfers with the same place, one is confirmed."""
        return self.sender, self.nonce

    @property
    def terms(self) -> dict[str, Any]:
        if self.kind == 2:
            return {"type": 2, "maxFeePerGas": 2 * self.price, "maxPriorityFeePerGas": self.price - GAS_PRICE}
        return {"type": self.kind, "gasPrice": self.price}

    @property
    def body(self) -> dict[str, Any]:
        """What is posted."""
        return {
            "from": self.sender,
            "to": self.to,
            "value": self.value,
            "nonce": self.nonce,
            "gas": self.gas,
            "signature": self.signature,
            **self.terms,
            **self.shown_data,
        }

    @property
    def shown_data(self) -> dict[str, str]:
        return {"data": f"0x{self.data.hex()}"} if self.data else {}


class PatientNode(PublicNode):
    """Asks again while the node says that it is not available, or is not there: faults make it so."""

    def get(self, path: str, **params: str | int) -> httpx.Response:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = super().get(path, **params)
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            else:
                if answer.status_code != 503 or time.monotonic() > deadline:
                    return answer
            time.sleep(_RETRY_S)


class Ledger:
    """What the clients were told, which is what the node must keep, whatever happens to it."""

    def __init__(self, rich: list[str]) -> None:
        """`rich` are the accounts that own all money at the start."""
        self.rich = rich
        self.signed: dict[str, Transfer] = {}
        """Everything that was ever sent: nothing else may be in a block."""
        self.recent: deque[str] = deque(maxlen=RECENT)
        """Hashes of those that were signed last."""
        self.rivals: Counter[tuple[str, int]] = Counter()
        """How many were signed for each place."""
        self.overtaken = 0
        """Refused, because another one for the same place was there first."""
        self.accepted: set[str] = set()
        """Answered with 200."""
        self.refused = 0
        """Answers with 503: try again later."""
        self.lost = 0
        """Answers that never came."""
        self.told_dropped: set[str] = set()
        """What a node said it will never confirm."""
        self.block_hashes: list[str] = []
        """Of every block seen, by height."""
        self.heights: dict[str, int] = {}
        """The block that holds each transaction that was seen in one."""
        self._fees: Counter[str] = Counter()

    def note_signed(self, transfer: Transfer) -> None:
        """Before it is sent."""
        self.signed[transfer.tx_hash] = transfer
        self.rivals[transfer.place] += 1
        self.recent.append(transfer.tx_hash)

    def note_accepted(self, tx_hash: str, url: str) -> None:
        """The node at `url` answered 200."""
        self.accepted.add(tx_hash)

    def accepted_by(self, url: str) -> set[str]:
        """What the node at `url` must know. One node has had many addresses."""
        return set(self.accepted)

    def check_kept(self, node: PublicNode) -> None:
        """Nothing that was final has changed, and all that was accepted before this call is there."""
        accepted = self.accepted_by(node.url)
        self.check_unchanged(node, LOOKED_AT_AGAIN)
        self.read_blocks(node)
        confirmed = self.places(self.heights)
        for tx_hash in accepted - self.heights.keys():
            # Another is in its place for ever, and the node may have forgotten this one.
            if self.signed[tx_hash].place in confirmed:
                continue
            answer = node.get(f"/tx/{tx_hash}")
            is_replaced = self.has_rivals(self.signed[tx_hash]) and answer.json().get("code") == "TX_DROPPED"
            if is_replaced:
                self.told_dropped.add(tx_hash)
            assert answer.status_code == 200 or is_replaced, f"{tx_hash} was accepted and is lost: {answer.text}"

    @property
    def replaced(self) -> int:
        """How many were accepted, and are not what came into a block for their place."""
        confirmed = self.places(self.heights)
        return sum(self.signed[tx_hash].place in confirmed for tx_hash in self.accepted - self.heights.keys())

    def is_replaced(self, tx_hash: str) -> bool:
        """Whether another one for its place may have come into a block."""
        return self.has_rivals(self.signed[tx_hash]) and tx_hash not in self.heights

    def copy(self) -> "Ledger":
        """What `go_back_to` takes later."""
        kept = copy.copy(self)
        kept.accepted, kept.told_dropped = set(self.accepted), set(self.told_dropped)
        kept.block_hashes, kept.heights, kept._fees = list(self.block_hashes), dict(self.heights), self._fees.copy()
        kept.signed, kept.rivals = dict(self.signed), self.rivals.copy()
        return kept

    def note_dropped(self, node: PublicNode) -> None:
        """Expect of the node no more that it knows what it has dropped by now: a revert does away with the reasons."""
        for tx_hash in self.accepted - self.heights.keys():
            if self.has_rivals(self.signed[tx_hash]) and node.get(f"/tx/{tx_hash}").json().get("code") == "TX_DROPPED":
                self.told_dropped.add(tx_hash)
                self.accepted.discard(tx_hash)

    def go_back_to(self, before: "Ledger") -> None:
        """The chain was reverted: all since is void, and nobody sends it again."""
        self.accepted, self.told_dropped = before.accepted, before.told_dropped
        self.block_hashes, self.heights, self._fees = before.block_hashes, before.heights, before._fees
        self.signed, self.rivals = before.signed, before.rivals

    def has_rivals(self, transfer: Transfer) -> bool:
        return self.rivals[transfer.place] > 1

    def places(self, hashes: Iterable[str]) -> set[tuple[str, int]]:
        return {self.signed[tx_hash].place for tx_hash in hashes}

    def check_unchanged(self, node: PublicNode, newest: int) -> None:
        """The blocks that were seen are still the same; looks at so many of them."""
        known = len(self.block_hashes)
        for height, block_hash in shown_hashes(node, known - 1):
            if height < known - newest:
                return
            assert self.block_hashes[height] == block_hash, (
                f"block {height} changed: it was {self.block_hashes[height]}"
            )

    def read_blocks(self, node: PublicNode) -> None:
        """Take in what was made since the last time."""
        head = node.read("/chain")["head"]["blockHeight"]
        assert head >= len(self.block_hashes) - 1, f"the chain is shorter than it was: {head}"
        for height in range(len(self.block_hashes), head + 1):
            block = node.read(f"/block/{height}")
            self._note_block(height, block)
            if block["transactions"]:
                self._check_data(node, block["transactions"][-1])

    def _note_block(self, height: int, block: dict[str, Any]) -> None:
        assert block["blockHeight"] == height
        if self.block_hashes:
            assert block["previousHash"] == self.block_hashes[-1], f"block {height} does not follow the one before"
        for tx_hash in block["transactions"]:
            assert tx_hash in self.signed, f"block {height} holds {tx_hash}, which nobody signed"
            assert tx_hash not in self.heights, f"{tx_hash} is in blocks {self.heights.get(tx_hash)} and {height}"
            self.heights[tx_hash] = height
            self._fees[block["proposer"]] += self.signed[tx_hash].fee
        used = sum(self.signed[tx_hash].gas for tx_hash in block["transactions"])
        assert block["gasUsed"] == used, f"block {height} uses {block['gasUsed']} gas, and its transfers {used}"
        self.block_hashes.append(block["hash"])

    def _check_data(self, node: PublicNode, tx_hash: str) -> None:
        shown = node.read(f"/tx/{tx_hash}")
        found = {name: shown[name] for name in ("data",) if name in shown}
        assert found == self.signed[tx_hash].shown_data, f"{tx_hash} is shown with other data than was signed: {shown}"

    def check_final(self, node: PublicNode) -> None:
        """All that was accepted is confirmed, once, and every balance is what the blocks make it."""
        self.read_blocks(node)
        self.check_unchanged(node, len(self.block_hashes))
        self.check_dropped(self.told_dropped)
        confirmed = self.places(self.heights)
        assert len(confirmed) == len(self.heights), "a nonce was used twice"
        missing = self.places(self.accepted) - confirmed
        assert not missing, f"{len(missing)} of {len(self.accepted)} accepted are in no block, as {min(missing)}"
        balances, nonces = self._balances()
        assert sum(balances.values()) == DEV_BALANCE * len(self.rich)
        for address, balance in balances.items():
            shown = node.read(f"/account/{address}")
            assert (shown["balance"], shown["nonce"]) == (balance, nonces[address]), f"{address} should have {balance}"

    def check_dropped(self, told: Iterable[str]) -> None:
        """Nothing that was told as dropped is in a block."""
        wrong = self.heights.keys() & told
        assert not wrong, f"{len(wrong)} were told as dropped and are confirmed, as {min(wrong)}"

    def _balances(self) -> tuple[Counter[str], Counter[str]]:
        """What follows from the blocks that were seen: the balance and the nonce of every account in them."""
        balances: Counter[str] = Counter(dict.fromkeys(self.rich, DEV_BALANCE))
        nonces: Counter[str] = Counter()
        for tx_hash in self.heights:
            transfer = self.signed[tx_hash]
            balances[transfer.sender] -= transfer.value + transfer.fee
            balances[transfer.to] += transfer.value
            nonces[transfer.sender] += 1
        balances.update(self._fees)
        return balances, nonces


def shown_hashes(node: PublicNode, highest: int) -> Iterator[tuple[int, str]]:
    """Height and hash of every block, newest first, from `highest` down."""
    params: dict[str, str | int] = {"limit": 1_000}
    while True:
        page = node.get("/blocks", **params)
        assert page.status_code == 200, page.text
        for block in page.json():
            if block["blockHeight"] <= highest:
                yield block["blockHeight"], block["hash"]
        if "next" not in page.links:
            return
        params = dict(httpx.URL(page.links["next"]["url"]).params)
