"""Requests out of the bytes of their messages, answers into whole frames: the only user of protobuf."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from cairn.engine.abci import messages as m
from cairn.engine.abci.framing import MalformedRequest, frame
from cairn.engine.abci.proto import abci_pb2 as pb

NS_PER_S = 1_000_000_000

_Block = TypeVar("_Block", bound=m.BlockRequest)


# Requests.


def decode_request(payload: bytes) -> m.Request:
    """Raises `MalformedRequest`."""
    try:
        request = pb.Request.FromString(payload)
    except DecodeError as error:
        raise MalformedRequest(f"not an ABCI request: {error}") from error
    kind = request.WhichOneof("value")
    if kind == "check_tx":
        check = request.check_tx
        return m.CheckTxRequest(check.tx, check.type == pb.RECHECK)
    if kind is None:
        raise MalformedRequest("a request of an unknown kind")
    return _DECODERS[kind](request)


def _time_ns(time: Timestamp | Duration) -> int:
    return time.seconds * NS_PER_S + time.nanos


def _info(request: pb.Request) -> m.Request:
    info = request.info
    return m.InfoRequest(info.version, info.block_version, info.p2p_version, info.abci_version)


def _init_chain(request: pb.Request) -> m.Request:
    init = request.init_chain
    return m.InitChainRequest(
        time_ns=_time_ns(init.time),
        chain_id=init.chain_id,
        consensus_params=_decode_params(init.consensus_params),
        validators=tuple(map(_decode_validator, init.validators)),
        app_state=init.app_state_bytes,
        initial_height=init.initial_height,
    )


def _decode_validator(update: pb.ValidatorUpdate) -> m.ValidatorUpdate:
    kind = update.pub_key.WhichOneof("sum")
    if kind is None:
        raise MalformedRequest("a validator with a key of an unknown type")
    key = update.pub_key.ed25519 if kind == "ed25519" else update.pub_key.secp256k1
    return m.ValidatorUpdate(key, update.power, kind)


def _decode_params(params: pb.ConsensusParams) -> m.ConsensusParams:
    block, evidence = params.block, params.evidence
    return m.ConsensusParams(
        block=m.BlockParams(block.max_bytes, block.max_gas) if params.HasField("block") else None,
        evidence=m.EvidenceParams(evidence.max_age_num_blocks, _time_ns(evidence.max_age_duration), evidence.max_bytes)
        if params.HasField("evidence")
        else None,
        public_key_types=tuple(params.validator.pub_key_types) if params.HasField("validator") else None,
        app_version=params.version.app if params.HasField("version") else None,
        vote_extensions_enable_height=params.abci.vote_extensions_enable_height if params.HasField("abci") else None,
    )


def _query(request: pb.Request) -> m.Request:
    query = request.query
    return m.QueryRequest(query.data, query.path, query.height, query.prove)


def _offer_snapshot(request: pb.Request) -> m.Request:
    offer = request.offer_snapshot
    found = offer.snapshot
    snapshot = m.Snapshot(found.height, found.format, found.chunks, found.hash, found.metadata)
    return m.OfferSnapshotRequest(snapshot, offer.app_hash)


def _load_snapshot_chunk(request: pb.Request) -> m.Request:
    load = request.load_snapshot_chunk
    return m.LoadSnapshotChunkRequest(load.height, load.format, load.chunk)


def _apply_snapshot_chunk(request: pb.Request) -> m.Request:
    apply = request.apply_snapshot_chunk
    return m.ApplySnapshotChunkRequest(apply.index, apply.chunk, apply.sender)


def _prepare_proposal(request: pb.Request) -> m.Request:
    prepare = request.prepare_proposal
    return m.PrepareProposalRequest(
        max_tx_bytes=prepare.max_tx_bytes,
        txs=tuple(prepare.txs),
        misbehavior=_decode_misbehavior(prepare.misbehavior),
        height=prepare.height,
        time_ns=_time_ns(prepare.time),
        next_validators_hash=prepare.next_validators_hash,
        proposer_address=prepare.proposer_address,
    )


def _decode_misbehavior(found: Iterable[pb.Misbehavior]) -> tuple[m.Misbehavior, ...]:
    return tuple(
        m.Misbehavior(
            # A kind that a later CometBFT may add is still misbehavior.
            kind=m.MisbehaviorKind(one.type) if one.type in pb.MisbehaviorType.values() else m.MisbehaviorKind.UNKNOWN,
            validator_address=one.validator.address,
            validator_power=one.validator.power,
            height=one.height,
            time_ns=_time_ns(one.time),
            total_voting_power=one.total_voting_power,
        )
        for one in found
    )


def _decode_block(
    kind: type[_Block], block: pb.RequestProcessProposal | pb.RequestExtendVote | pb.RequestFinalizeBlock
) -> _Block:
    return kind(
        txs=tuple(block.txs),
        misbehavior=_decode_misbehavior(block.misbehavior),
        hash=block.hash,
        height=block.height,
        time_ns=_time_ns(block.time),
        next_validators_hash=block.next_validators_hash,
        proposer_address=block.proposer_address,
    )


def _verify_vote_extension(request: pb.Request) -> m.Request:
    verify = request.verify_vote_extension
    return m.VerifyVoteExtensionRequest(verify.hash, verify.validator_address, verify.height, verify.vote_extension)


_DECODERS: dict[str, Callable[[pb.Request], m.Request]] = {
    "echo": lambda request: m.EchoRequest(request.echo.message),
    "flush": lambda request: m.FlushRequest(),
    "info": _info,
    "init_chain": _init_chain,
    "query": _query,
    "commit": lambda request: m.CommitRequest(),
    "list_snapshots": lambda request: m.ListSnapshotsRequest(),
    "offer_snapshot": _offer_snapshot,
    "load_snapshot_chunk": _load_snapshot_chunk,
    "apply_snapshot_chunk": _apply_snapshot_chunk,
    "prepare_proposal": _prepare_proposal,
    "process_proposal": lambda request: _decode_block(m.ProcessProposalRequest, request.process_proposal),
    "extend_vote": lambda request: _decode_block(m.ExtendVoteRequest, request.extend_vote),
    "verify_vote_extension": _verify_vote_extension,
    "finalize_block": lambda request: _decode_block(m.FinalizeBlockRequest, request.finalize_block),
}


# Responses, each as a whole frame.


def _framed(response: pb.Response) -> bytes:
    return frame(response.SerializeToString())


def encode_exception(error: str) -> bytes:
    return _framed(pb.Response(exception=pb.ResponseException(error=error)))


def encode_echo(message: str) -> bytes:
    return _framed(pb.Response(echo=pb.ResponseEcho(message=message)))


FLUSHED = _framed(pb.Response(flush=pb.ResponseFlush()))


def encode_info(info: m.InfoResponse) -> bytes:
    return _framed(
        pb.Response(
            info=pb.ResponseInfo(
                data=info.data,
                version=info.version,
                app_version=info.app_version,
                last_block_height=info.last_block_height,
                last_block_app_hash=info.last_block_app_hash,
            )
        )
    )


def encode_init_chain(init: m.InitChainResponse) -> bytes:
    return _framed(
        pb.Response(
            init_chain=pb.ResponseInitChain(
                consensus_params=_encode_params(init.consensus_params),
                validators=map(_encode_validator, init.validators),
                app_hash=init.app_hash,
            )
        )
    )


def _encode_validator(update: m.ValidatorUpdate) -> pb.ValidatorUpdate:
    if update.key_type == "ed25519":
        key = pb.PublicKey(ed25519=update.public_key)
    else:
        key = pb.PublicKey(secp256k1=update.public_key)
    return pb.ValidatorUpdate(pub_key=key, power=update.power)


def _encode_params(params: m.ConsensusParams | None) -> pb.ConsensusParams | None:
    if params is None:
        return None
    encoded = pb.ConsensusParams()
    if params.block is not None:
        encoded.block.CopyFrom(pb.BlockParams(max_bytes=params.block.max_bytes, max_gas=params.block.max_gas))
    if params.evidence is not None:
        seconds, nanos = divmod(params.evidence.max_age_ns, NS_PER_S)
        encoded.evidence.CopyFrom(
            pb.EvidenceParams(
                max_age_num_blocks=params.evidence.max_age_blocks,
                max_age_duration=Duration(seconds=seconds, nanos=nanos),
                max_bytes=params.evidence.max_bytes,
            )
        )
    if params.public_key_types is not None:
        encoded.validator.CopyFrom(pb.ValidatorParams(pub_key_types=params.public_key_types))
    if params.app_version is not None:
        encoded.version.CopyFrom(pb.VersionParams(app=params.app_version))
    if params.vote_extensions_enable_height is not None:
        height = params.vote_extensions_enable_height
        encoded.abci.CopyFrom(pb.ABCIParams(vote_extensions_enable_height=height))
    return encoded


def encode_query(query: m.QueryResponse) -> bytes:
    return _framed(
        pb.Response(
            query=pb.ResponseQuery(
                code=query.code,
                log=query.log,
                info=query.info,
                index=query.index,
                key=query.key,
                value=query.value,
                height=query.height,
                codespace=query.codespace,
            )
        )
    )


def encode_check_tx(result: m.TxResult) -> bytes:
    response = pb.Response()
    _fill(response.check_tx, result)
    # An answer whose every field is the default would otherwise be no answer.
    response.check_tx.SetInParent()
    return _framed(response)


def _fill(target: pb.ResponseCheckTx | pb.ExecTxResult, result: m.TxResult) -> None:
    """Sets only what differs from the default: most answers are short, and each field set costs."""
    if result.code:
        target.code = result.code
    if result.data:
        target.data = result.data
    if result.log:
        target.log = result.log
    if result.info:
        target.info = result.info
    if result.gas_wanted:
        target.gas_wanted = result.gas_wanted
    if result.gas_used:
        target.gas_used = result.gas_used
    if result.codespace:
        target.codespace = result.codespace


def encode_commit(retain_height: int) -> bytes:
    return _framed(pb.Response(commit=pb.ResponseCommit(retain_height=retain_height)))


def encode_list_snapshots(snapshots: Sequence[m.Snapshot]) -> bytes:
    encoded = [
        pb.Snapshot(height=one.height, format=one.format, chunks=one.chunks, hash=one.hash, metadata=one.metadata)
        for one in snapshots
    ]
    return _framed(pb.Response(list_snapshots=pb.ResponseListSnapshots(snapshots=encoded)))


def encode_offer_snapshot(result: m.OfferSnapshotResult) -> bytes:
    value = pb.ResponseOfferSnapshot.Result.ValueType(result)
    return _framed(pb.Response(offer_snapshot=pb.ResponseOfferSnapshot(result=value)))


def encode_load_snapshot_chunk(chunk: bytes) -> bytes:
    return _framed(pb.Response(load_snapshot_chunk=pb.ResponseLoadSnapshotChunk(chunk=chunk)))


def encode_apply_snapshot_chunk(applied: m.ApplySnapshotChunkResponse) -> bytes:
    return _framed(
        pb.Response(
            apply_snapshot_chunk=pb.ResponseApplySnapshotChunk(
                result=pb.ResponseApplySnapshotChunk.Result.ValueType(applied.result),
                refetch_chunks=applied.refetch_chunks,
                reject_senders=applied.reject_senders,
            )
        )
    )


def encode_prepare_proposal(txs: Sequence[bytes]) -> bytes:
    return _framed(pb.Response(prepare_proposal=pb.ResponsePrepareProposal(txs=txs)))


def encode_process_proposal(accepted: bool) -> bytes:
    status = pb.ResponseProcessProposal.ACCEPT if accepted else pb.ResponseProcessProposal.REJECT
    return _framed(pb.Response(process_proposal=pb.ResponseProcessProposal(status=status)))


def encode_extend_vote(extension: bytes) -> bytes:
    return _framed(pb.Response(extend_vote=pb.ResponseExtendVote(vote_extension=extension)))


def encode_verify_vote_extension(accepted: bool) -> bytes:
    status = pb.ResponseVerifyVoteExtension.ACCEPT if accepted else pb.ResponseVerifyVoteExtension.REJECT
    return _framed(pb.Response(verify_vote_extension=pb.ResponseVerifyVoteExtension(status=status)))


def encode_finalize_block(outcome: m.FinalizeBlockResponse) -> bytes:
    response = pb.Response()
    finalized = response.finalize_block
    # Most have the same result: each run of equal ones is made once.
    for result, equal in itertools.groupby(outcome.tx_results):
        filled = pb.ExecTxResult()
        _fill(filled, result)
        finalized.tx_results.extend([filled] * len(list(equal)))
    finalized.validator_updates.extend(map(_encode_validator, outcome.validator_updates))
    updates = _encode_params(outcome.consensus_param_updates)
    if updates is not None:
        finalized.consensus_param_updates.CopyFrom(updates)
    finalized.app_hash = outcome.app_hash
    finalized.SetInParent()
    return _framed(response)
