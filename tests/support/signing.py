"""Signatures of dev chains, for blocks that a test makes without an engine."""

from cairn.domain.certificates import BlockSignature, engine_chain_id, sign_block
from cairn.domain.genesis import DEV_SIGNER, DEV_SIGNING_SEED, Genesis
from cairn.domain.transition import BlockOutcome
from cairn.store.chain import ChainStore
from cairn.store.signing_key import SigningKey

KEY = SigningKey(DEV_SIGNING_SEED)


def dev_signature(genesis: Genesis, outcome: BlockOutcome) -> BlockSignature | None:
    """What must be stored with the block, if a node makes the blocks of this chain alone."""
    if genesis.signer is None:
        return None
    assert genesis.signer == DEV_SIGNER, "the key of this chain is not public"
    block = outcome.block
    return sign_block(block.header, block.hash, engine_chain_id(genesis), DEV_SIGNER, KEY.sign)


def commit_signed(chain: ChainStore, outcome: BlockOutcome) -> None:
    """Write a block, signed if it must be."""
    chain.commit(outcome, signed=dev_signature(chain.genesis, outcome))
