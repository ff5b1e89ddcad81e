"""A node and a witness of a toy chain, as far as the commands about proofs ask them."""

from urllib.parse import parse_qs, urlsplit

from eth_utils.crypto import keccak

from tests.support.json_server import Answer, JsonServer
from tests.support.proof_chain import Json, ProofChain, Validator, encode, hexed, seeded, wide

WITNESS = Validator(seeded("a witness"), 1)


def problem(status: int, code: str) -> Answer:
    fields = {"type": f"urn:cairn:problem:{code}", "title": "", "status": status, "detail": "because", "code": code}
    return status, fields


class ToyNode(JsonServer):
    def __init__(self, chain: ProofChain, head: int | None = None) -> None:
        self.chain = chain
        self.head = chain.height if head is None else head
        self.empty = 0
        """How many blocks of the chain are after the signed one, and not signed."""
        self.unsigned = 0
        """How often it first says that nothing is signed yet."""
        self.lies: dict[str, Json] = {}
        """Files that it serves instead of the right ones, by the path."""
        super().__init__()

    def get(self, target: str) -> Answer:
        url = urlsplit(target)
        given = parse_qs(url.query).items()
        query = {name: int(values[0]) for name, values in given if values[0].isdigit()}
        if url.path == "/health":
            return 200, {"status": "ok"}
        if url.path == "/genesis":
            return 200, self.chain.genesis
        if self.unsigned:
            self.unsigned -= 1
            return problem(404, "NOT_SIGNED_YET")
        if url.path in self.lies:
            return 200, encode(self.lies[url.path])
        return self._answer(url.path.strip("/").split("/"), query)

    def _answer(self, path: list[str], query: dict[str, int]) -> Answer:
        chain, head = self.chain, self.head
        match path:
            case ["tx", tx_hash, "receipt"]:
                for block in chain.blocks:
                    for index, paid in enumerate(block.paid):
                        if hexed(keccak(paid.raw)) == tx_hash:
                            return 200, encode(chain.receipt(block.height, index, head))
                return problem(404, "TX_NOT_FOUND")
            case ["account", address, "proof"]:
                return 200, encode(chain.account(bytes.fromhex(address[2:]), query.get("height", head), head))
            case ["account", address, "statement"]:
                return 200, encode(chain.statement(bytes.fromhex(address[2:]), query.get("from", 0), query["to"], head))
            case ["account", address]:
                found = [block.height for block in chain.blocks[: head + self.empty + 1] if block.time <= query["time"]]
                if not found:
                    return problem(404, "BLOCK_NOT_FOUND")
                state = {"address": address, "balance": 0, "nonce": 0, "pendingNonce": 0, "blockHeight": found[-1]}
                return 200, state
            case ["block", height, "finality"]:
                return 200, encode(chain.finality(int(height), head))
            case ["history", "proof"]:
                return 200, encode(chain.history(query["from"], query["to"], max(head, query["to"])))
        return problem(404, "PATH_NOT_FOUND")


class ToyWitness(JsonServer):
    def __init__(self, chain: ProofChain, heads: list[int], digest: bytes | None = None) -> None:
        """`heads` is what it has seen at each question; the last one stays."""
        self._chain = chain
        self._digest = chain.digest if digest is None else digest
        self._heads = heads
        super().__init__()

    def get(self, target: str) -> Answer:
        height = self._heads.pop(0) if len(self._heads) > 1 else self._heads[0]
        block = self._chain.blocks[height]
        message = b"cairn witness 1\0" + self._digest + wide(height, 8) + block.hash
        signature = hexed(WITNESS.sign(message))
        head = {"header": hexed(block.header), "height": height, "publicKey": hexed(WITNESS.key)}
        return 200, head | {"signature": signature}
