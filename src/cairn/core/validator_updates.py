"""The validators of a network: read from the chain, changed by updates that administrators have signed."""

from collections.abc import Callable

from cairn.core.gateway import ValidatorSet
from cairn.domain.errors import EngineUnavailable, NotFound
from cairn.domain.governance import Update
from cairn.domain.governance_codec import encode_update
from cairn.domain.updates import apply_update
from cairn.engine.network.rpc import IN_CACHE, RPC_TIMEOUT_S, Rpc, RpcAway
from cairn.store.chain import ChainStore


def validator_set(chain: ChainStore) -> ValidatorSet:
    """The validators after the latest block. Raises `NotFound` on a chain without validators."""
    if chain.governance is None:
        raise NotFound("this chain has no validators")
    governance, missed = chain.governance, chain.attendance.missed()
    return ValidatorSet(
        chain.identity,
        chain.head_header.height,
        governance,
        chain.attendance.blocks,
        [missed[validator.engine_address] for validator in governance.validators],
    )


async def submit_update(
    chain: ChainStore,
    update: Update,
    rpc_address: str,
    on_checked: Callable[[Update], None] = lambda update: None,
) -> None:
    """Check an update and pass it to CometBFT. It is not stored: the submitter must check whether it was applied.

    `on_checked` is called with a valid update before CometBFT gets it.
    Raises `UpdateRefused` or `InvalidSignature` as a block would, and `EngineUnavailable`.
    """
    current = validator_set(chain)
    apply_update(current.governance, update, current.chain)
    on_checked(update)
    rpc = Rpc(rpc_address, RPC_TIMEOUT_S)
    try:
        error = await rpc.broadcast(encode_update(update))
    except (RpcAway, TimeoutError) as away:
        raise EngineUnavailable(f"CometBFT does not answer: {str(away) or 'it takes too long'}") from None
    finally:
        rpc.close()
    if error is not None and IN_CACHE not in error.data:
        raise EngineUnavailable(f"CometBFT does not take it: {error}")
