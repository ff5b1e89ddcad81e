import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from cairn.engine.abci import messages as m
from cairn.engine.abci import wire
from cairn.engine.abci.framing import FrameReader, MalformedRequest
from cairn.engine.abci.proto import abci_pb2 as pb

TIME = Timestamp(seconds=1_700_000_000, nanos=5)
TIME_NS = 1_700_000_000_000_000_005
EVIDENCE = [
    pb.Misbehavior(
        type=pb.DUPLICATE_VOTE,
        validator=pb.Validator(address=b"v" * 20, power=7),
        height=3,
        time=TIME,
        total_voting_power=40,
    )
]
FOUND = (m.Misbehavior(m.MisbehaviorKind.DUPLICATE_VOTE, b"v" * 20, 7, 3, TIME_NS, 40),)
PARAMS = m.ConsensusParams(
    block=m.BlockParams(4_000_000, -1),
    evidence=m.EvidenceParams(100_000, 172_800_000_000_001, 1_000),
    public_key_types=("ed25519",),
    app_version=2,
    vote_extensions_enable_height=0,
)
WIRE_PARAMS = pb.ConsensusParams(
    block=pb.BlockParams(max_bytes=4_000_000, max_gas=-1),
    evidence=pb.EvidenceParams(
        max_age_num_blocks=100_000, max_age_duration=Duration(seconds=172_800, nanos=1), max_bytes=1_000
    ),
    validator=pb.ValidatorParams(pub_key_types=["ed25519"]),
    version=pb.VersionParams(app=2),
    abci=pb.ABCIParams(),
)


def block_of(kind: type[m.BlockRequest]) -> m.BlockRequest:
    return kind((b"1", b"2"), FOUND, b"h", 9, TIME_NS, b"n", b"p")


def fill(
    block: pb.RequestProcessProposal | pb.RequestExtendVote | pb.RequestFinalizeBlock, request: pb.Request
) -> pb.Request:
    """Sets what the three kinds of block requests share."""
    block.txs.extend([b"1", b"2"])
    block.misbehavior.extend(EVIDENCE)
    block.hash, block.height = b"h", 9
    block.time.CopyFrom(TIME)
    block.next_validators_hash, block.proposer_address = b"n", b"p"
    return request


PROCESS, EXTEND, FINALIZE = pb.Request(), pb.Request(), pb.Request()
REQUESTS = [
    (pb.Request(echo=pb.RequestEcho(message="x")), m.EchoRequest("x")),
    (pb.Request(flush=pb.RequestFlush()), m.FlushRequest()),
    (
        pb.Request(info=pb.RequestInfo(version="0.38.25", block_version=11, p2p_version=8, abci_version="2.0.0")),
        m.InfoRequest("0.38.25", 11, 8, "2.0.0"),
    ),
    (
        pb.Request(
            init_chain=pb.RequestInitChain(
                time=TIME,
                chain_id="c",
                consensus_params=WIRE_PARAMS,
                validators=[
                    pb.ValidatorUpdate(pub_key=pb.PublicKey(ed25519=b"e" * 32), power=1),
                    pb.ValidatorUpdate(pub_key=pb.PublicKey(secp256k1=b"s" * 33), power=2),
                ],
                app_state_bytes=b"{}",
                initial_height=1,
            )
        ),
        m.InitChainRequest(
            TIME_NS,
            "c",
            PARAMS,
            (m.ValidatorUpdate(b"e" * 32, 1), m.ValidatorUpdate(b"s" * 33, 2, "secp256k1")),
            b"{}",
            1,
        ),
    ),
    (
        pb.Request(query=pb.RequestQuery(data=b"d", path="/p", height=4, prove=True)),
        m.QueryRequest(b"d", "/p", 4, True),
    ),
    (pb.Request(check_tx=pb.RequestCheckTx(tx=b"t")), m.CheckTxRequest(b"t", recheck=False)),
    (pb.Request(check_tx=pb.RequestCheckTx(tx=b"t", type=pb.RECHECK)), m.CheckTxRequest(b"t", recheck=True)),
    (pb.Request(commit=pb.RequestCommit()), m.CommitRequest()),
    (pb.Request(list_snapshots=pb.RequestListSnapshots()), m.ListSnapshotsRequest()),
    (
        pb.Request(
            offer_snapshot=pb.RequestOfferSnapshot(
                snapshot=pb.Snapshot(height=5, format=1, chunks=2, hash=b"h", metadata=b"m"), app_hash=b"a"
            )
        ),
        m.OfferSnapshotRequest(m.Snapshot(5, 1, 2, b"h", b"m"), b"a"),
    ),
    (
        pb.Request(load_snapshot_chunk=pb.RequestLoadSnapshotChunk(height=5, format=1, chunk=2)),
        m.LoadSnapshotChunkRequest(5, 1, 2),
    ),
    (
        pb.Request(apply_snapshot_chunk=pb.RequestApplySnapshotChunk(index=1, chunk=b"c", sender="s")),
        m.ApplySnapshotChunkRequest(1, b"c", "s"),
    ),
    (
        pb.Request(
            prepare_proposal=pb.RequestPrepareProposal(
                max_tx_bytes=77,
                txs=[b"1", b"2"],
                local_last_commit=pb.ExtendedCommitInfo(round=1),
                misbehavior=EVIDENCE,
                height=9,
                time=TIME,
                next_validators_hash=b"n",
                proposer_address=b"p",
            )
        ),
        m.PrepareProposalRequest(77, (b"1", b"2"), FOUND, 9, TIME_NS, b"n", b"p"),
    ),
    (fill(PROCESS.process_proposal, PROCESS), block_of(m.ProcessProposalRequest)),
    (fill(EXTEND.extend_vote, EXTEND), block_of(m.ExtendVoteRequest)),
    (
        pb.Request(
            verify_vote_extension=pb.RequestVerifyVoteExtension(
                hash=b"h", validator_address=b"v", height=9, vote_extension=b"e"
            )
        ),
        m.VerifyVoteExtensionRequest(b"h", b"v", 9, b"e"),
    ),
    (fill(FINALIZE.finalize_block, FINALIZE), block_of(m.FinalizeBlockRequest)),
]


def unframed(answer: bytes) -> pb.Response:
    (payload,) = FrameReader().feed(answer)
    return pb.Response.FromString(payload)


@pytest.mark.parametrize(("request_", "expected"), REQUESTS, ids=lambda value: type(value).__name__)
def test_a_request_becomes_a_plain_value(request_: pb.Request, expected: m.Request) -> None:
    assert wire.decode_request(request_.SerializeToString()) == expected


def test_every_kind_of_request_is_covered() -> None:
    kinds = {field.name for field in pb.Request.DESCRIPTOR.oneofs_by_name["value"].fields}
    assert {request.WhichOneof("value") for request, _ in REQUESTS} == kinds


def test_a_field_of_a_later_version_is_passed_over() -> None:
    check = pb.RequestCheckTx(tx=b"t").SerializeToString() + b"\xf8\x01\x05"  # Field 31, varint 5.
    payload = bytes((8 << 3 | 2, len(check))) + check
    assert wire.decode_request(payload) == m.CheckTxRequest(b"t", recheck=False)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "unknown kind"),
        (b"\xfa\x01\x00", "unknown kind"),
        (b"\x42\x05\x0a", "not an ABCI request"),
        (b"rubbish", "not an ABCI request"),
        (
            pb.Request(init_chain=pb.RequestInitChain(validators=[pb.ValidatorUpdate(power=1)])).SerializeToString(),
            "key of an unknown type",
        ),
    ],
)
def test_what_is_no_request_is_refused(payload: bytes, reason: str) -> None:
    with pytest.raises(MalformedRequest, match=reason):
        wire.decode_request(payload)


def test_misbehavior_of_an_unknown_kind_is_still_misbehavior() -> None:
    request = pb.Request(finalize_block=pb.RequestFinalizeBlock(misbehavior=[pb.Misbehavior()]))
    request.finalize_block.misbehavior[0].MergeFromString(b"\x08\x63")
    decoded = wire.decode_request(request.SerializeToString())
    assert isinstance(decoded, m.FinalizeBlockRequest)
    assert [one.kind for one in decoded.misbehavior] == [m.MisbehaviorKind.UNKNOWN]


def test_absent_sections_of_the_parameters_are_none() -> None:
    decoded = wire.decode_request(pb.Request(init_chain=pb.RequestInitChain()).SerializeToString())
    assert isinstance(decoded, m.InitChainRequest)
    assert decoded.consensus_params == m.ConsensusParams()


RESULT = m.TxResult(3, b"d", "l", "i", 5, 4, "c")
WIRE_RESULT = pb.ExecTxResult(code=3, data=b"d", log="l", info="i", gas_wanted=5, gas_used=4, codespace="c")
KEYS = [m.ValidatorUpdate(b"e" * 32, 1), m.ValidatorUpdate(b"s" * 33, 0, "secp256k1")]
WIRE_KEYS = [
    pb.ValidatorUpdate(pub_key=pb.PublicKey(ed25519=b"e" * 32), power=1),
    pb.ValidatorUpdate(pub_key=pb.PublicKey(secp256k1=b"s" * 33), power=0),
]

ANSWERS = [
    (wire.encode_exception("bad"), pb.Response(exception=pb.ResponseException(error="bad"))),
    (wire.encode_echo("x"), pb.Response(echo=pb.ResponseEcho(message="x"))),
    (wire.FLUSHED, pb.Response(flush=pb.ResponseFlush())),
    (
        wire.encode_info(m.InfoResponse(9, b"a", 2, "v", "d")),
        pb.Response(
            info=pb.ResponseInfo(data="d", version="v", app_version=2, last_block_height=9, last_block_app_hash=b"a")
        ),
    ),
    (
        wire.encode_init_chain(m.InitChainResponse(b"a", KEYS, PARAMS)),
        pb.Response(init_chain=pb.ResponseInitChain(consensus_params=WIRE_PARAMS, validators=WIRE_KEYS, app_hash=b"a")),
    ),
    (wire.encode_init_chain(m.InitChainResponse(b"")), pb.Response(init_chain=pb.ResponseInitChain())),
    (
        wire.encode_query(m.QueryResponse(1, "l", "i", 2, b"k", b"v", 3, "c")),
        pb.Response(
            query=pb.ResponseQuery(code=1, log="l", info="i", index=2, key=b"k", value=b"v", height=3, codespace="c")
        ),
    ),
    (
        wire.encode_check_tx(RESULT),
        pb.Response(check_tx=pb.ResponseCheckTx.FromString(WIRE_RESULT.SerializeToString())),
    ),
    (wire.encode_check_tx(m.TxResult()), pb.Response(check_tx=pb.ResponseCheckTx())),
    (wire.encode_commit(8), pb.Response(commit=pb.ResponseCommit(retain_height=8))),
    (wire.encode_commit(0), pb.Response(commit=pb.ResponseCommit())),
    (
        wire.encode_list_snapshots([m.Snapshot(5, 1, 2, b"h", b"m")]),
        pb.Response(
            list_snapshots=pb.ResponseListSnapshots(
                snapshots=[pb.Snapshot(height=5, format=1, chunks=2, hash=b"h", metadata=b"m")]
            )
        ),
    ),
    (
        wire.encode_offer_snapshot(m.OfferSnapshotResult.REJECT_SENDER),
        pb.Response(offer_snapshot=pb.ResponseOfferSnapshot(result=pb.ResponseOfferSnapshot.REJECT_SENDER)),
    ),
    (
        wire.encode_load_snapshot_chunk(b"c"),
        pb.Response(load_snapshot_chunk=pb.ResponseLoadSnapshotChunk(chunk=b"c")),
    ),
    (
        wire.encode_apply_snapshot_chunk(m.ApplySnapshotChunkResponse(m.ApplySnapshotChunkResult.RETRY, [1, 2], ["s"])),
        pb.Response(
            apply_snapshot_chunk=pb.ResponseApplySnapshotChunk(
                result=pb.ResponseApplySnapshotChunk.RETRY, refetch_chunks=[1, 2], reject_senders=["s"]
            )
        ),
    ),
    (
        wire.encode_prepare_proposal([b"1", b"2"]),
        pb.Response(prepare_proposal=pb.ResponsePrepareProposal(txs=[b"1", b"2"])),
    ),
    (
        wire.encode_process_proposal(True),
        pb.Response(process_proposal=pb.ResponseProcessProposal(status=pb.ResponseProcessProposal.ACCEPT)),
    ),
    (
        wire.encode_process_proposal(False),
        pb.Response(process_proposal=pb.ResponseProcessProposal(status=pb.ResponseProcessProposal.REJECT)),
    ),
    (wire.encode_extend_vote(b""), pb.Response(extend_vote=pb.ResponseExtendVote())),
    (
        wire.encode_verify_vote_extension(True),
        pb.Response(verify_vote_extension=pb.ResponseVerifyVoteExtension(status=pb.ResponseVerifyVoteExtension.ACCEPT)),
    ),
    (
        wire.encode_verify_vote_extension(False),
        pb.Response(verify_vote_extension=pb.ResponseVerifyVoteExtension(status=pb.ResponseVerifyVoteExtension.REJECT)),
    ),
    (
        wire.encode_finalize_block(m.FinalizeBlockResponse([m.TxResult(), RESULT], b"a", KEYS, PARAMS)),
        pb.Response(
            finalize_block=pb.ResponseFinalizeBlock(
                tx_results=[pb.ExecTxResult(), WIRE_RESULT],
                validator_updates=WIRE_KEYS,
                consensus_param_updates=WIRE_PARAMS,
                app_hash=b"a",
            )
        ),
    ),
    (
        wire.encode_finalize_block(m.FinalizeBlockResponse([], b"")),
        pb.Response(finalize_block=pb.ResponseFinalizeBlock()),
    ),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS, ids=lambda value: type(value).__name__)
def test_an_answer_becomes_one_frame(answer: bytes, expected: pb.Response) -> None:
    assert unframed(answer) == expected


def test_every_kind_of_answer_is_covered() -> None:
    kinds = {field.name for field in pb.Response.DESCRIPTOR.oneofs_by_name["value"].fields}
    assert {expected.WhichOneof("value") for _, expected in ANSWERS} == kinds
