"""Signs the blocks of a node that makes them alone, and certifies them."""

import structlog

from cairn.domain.certificates import (
    BlockSignature,
    Certificate,
    engine_chain_id,
    first_validators,
    lone_certificate,
    next_signer,
    sign_block,
)
from cairn.domain.errors import EngineUnavailable, NotSignedYet
from cairn.domain.types import SealedBlock
from cairn.store.chain import ChainStore
from cairn.store.signing_key import SigningKeys, key_text

log = structlog.get_logger("cairn.engine")


class BlockSigner:
    """Signs each block with the key that the chain names, and hands over to its successor if there is one."""

    def __init__(self, chain: ChainStore, keys: SigningKeys) -> None:
        """Find the key that signs now. Raises `NoSigningKey`."""
        self._chain = chain
        self._keys = keys
        # Once: genesis may name a million accounts, and all of it is hashed.
        self._chain_id, self._first = engine_chain_id(chain.genesis), first_validators(chain.genesis)
        self._steps = chain.steps()
        self._key = keys.key_of(self._signer())
        keys.settle(self._key.public_key)

    def sign(self, block: SealedBlock) -> BlockSignature:
        """Sign a block, which is not made if that fails. Raises `EngineUnavailable`."""
        key, chain_id = self._key, self._chain_id
        successor = self._keys.successor_to(key.public_key)
        following = None if successor is None else successor.public_key
        try:
            return sign_block(block.header, block.hash, chain_id, key.public_key, key.sign, following)
        except Exception as failure:
            # Not the fault of its transactions, which else would be dropped.
            raise EngineUnavailable(f"the block cannot be signed: {failure!r}") from failure

    def committed(self, signed: BlockSignature) -> None:
        """The block is on disk with its signature."""
        if signed.step is None:
            return
        self._steps.append(signed.step)
        old, self._key = self._key, self._keys.key_of(self._signer())
        log.warning(
            "blocks are signed with another key from here on",
            old=key_text(old.public_key),
            new=key_text(self._key.public_key),
        )
        # Last: while the step is not on disk, the old key is needed.
        self._keys.settle(self._key.public_key)

    def certificate(self, height: int | None = None) -> Certificate:
        """That of the block at `height`, or of the newest one. Raises `NotSignedYet`."""
        chain = self._chain
        if height is None or chain.find_signature(height) is None:
            # Block 0 needs none, and those of older blocks were removed with them: a later block proves them.
            if height is not None and height > chain.visible:
                raise NotSignedYet(f"block {height} is not made yet")
            height = chain.visible
        found, signature = chain.find_header(height), chain.find_signature(height)
        if found is None or signature is None:
            raise NotSignedYet("there is no block after the first one yet, and the first one needs no signature")
        return lone_certificate(found[1], signature, self._chain_id, self._first, self._steps)

    def _signer(self) -> bytes:
        return next_signer(self._steps, self._first)
