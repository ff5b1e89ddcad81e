import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from cairn.engine.abci import requests as m
from cairn.engine.abci import wire
from cairn.engine.abci.proto import abci_pb2 as pb
from cairn.engine.abci.wire import Call, FrameReader, MalformedFrame

TIME = Timestamp(seconds=1_700_000_000, nanos=5)
TIME_NS = 1_700_000_000_000_000_005
BLOCK = ((b"1", b"2"), 9, TIME_NS, b"p", (m.Misbehavior(1, b"v", 3, TIME_NS),))


def fill(
    block: pb.RequestProcessProposal | pb.RequestExtendVote | pb.RequestFinalizeBlock, request: pb.Request
) -> pb.Request:
    """Sets what the three kinds of block requests share."""
    block.txs.extend([b"1", b"2"])
    block.misbehavior.add(
        type=pb.DUPLICATE_VOTE, validator=pb.Validator(address=b"v", power=7), height=3, time=TIME, total_voting_power=9
    )
    block.hash, block.height = b"h", 9
    block.time.CopyFrom(TIME)
    block.next_validators_hash, block.proposer_address = b"n", b"p"
    return request


VOTED = pb.CommitInfo(
    votes=[
        pb.VoteInfo(validator=pb.Validator(address=address), block_id_flag=flag)
        for address, flag in (
            (b"here", pb.BLOCK_ID_FLAG_COMMIT),
            (b"away", pb.BLOCK_ID_FLAG_ABSENT),
            (b"nil", pb.BLOCK_ID_FLAG_NIL),
            (b"gone", pb.BLOCK_ID_FLAG_ABSENT),
        )
    ]
)
PROCESS, EXTEND, FINALIZE = pb.Request(), pb.Request(), pb.Request()
REQUESTS = [
    (pb.Request(echo=pb.RequestEcho(message="x")), Call("echo", ("x",))),
    (pb.Request(flush=pb.RequestFlush()), Call("flush")),
    (pb.Request(info=pb.RequestInfo(version="0.38.25", block_version=11)), Call("info")),
    (
        pb.Request(
            init_chain=pb.RequestInitChain(
                time=TIME,
                chain_id="c",
                consensus_params=pb.ConsensusParams(block=pb.BlockParams(max_bytes=4_000_000, max_gas=-1)),
                validators=[
                    pb.ValidatorUpdate(pub_key=pb.PublicKey(ed25519=b"e" * 32), power=1),
                    pb.ValidatorUpdate(pub_key=pb.PublicKey(secp256k1=b"s" * 33), power=2),
                ],
                app_state_bytes=b"{}",
                initial_height=7,
            )
        ),
        Call(
            "init_chain",
            (
                m.InitChainRequest(
                    [m.ValidatorPower(b"e" * 32, 1), m.ValidatorPower(b"s" * 33, 2)],
                    b"{}",
                    initial_height=7,
                    app_version=0,
                ),
            ),
            7,
        ),
    ),
    (pb.Request(query=pb.RequestQuery(data=b"d", path="/p", height=4, prove=True)), Call("query", ("/p",))),
    (pb.Request(check_tx=pb.RequestCheckTx(tx=b"t")), m.CheckTxRequest(b"t", recheck=False)),
    (pb.Request(check_tx=pb.RequestCheckTx(tx=b"t", type=pb.RECHECK)), m.CheckTxRequest(b"t", recheck=True)),
    (pb.Request(commit=pb.RequestCommit()), Call("commit")),
    (pb.Request(list_snapshots=pb.RequestListSnapshots()), Call("list_snapshots")),
    (
        pb.Request(
            offer_snapshot=pb.RequestOfferSnapshot(
                snapshot=pb.Snapshot(height=5, format=1, chunks=2, hash=b"h", metadata=b"m"), app_hash=b"a"
            )
        ),
        Call("offer_snapshot", (m.OfferSnapshotRequest(m.Snapshot(5, 1, 2, b"h", b"m"), b"a"),), 5),
    ),
    (
        pb.Request(load_snapshot_chunk=pb.RequestLoadSnapshotChunk(height=5, format=1, chunk=2)),
        Call("load_snapshot_chunk", (m.LoadSnapshotChunkRequest(5, 1, 2),)),
    ),
    (
        pb.Request(apply_snapshot_chunk=pb.RequestApplySnapshotChunk(index=1, chunk=b"c", sender="s")),
        Call("apply_snapshot_chunk", (m.ApplySnapshotChunkRequest(1, b"c", "s"),)),
    ),
    (
        pb.Request(
            prepare_proposal=pb.RequestPrepareProposal(
                max_tx_bytes=77,
                txs=[b"1", b"2"],
                local_last_commit=pb.ExtendedCommitInfo(round=1),
                height=9,
                time=TIME,
                next_validators_hash=b"n",
                proposer_address=b"p",
            )
        ),
        Call("prepare_proposal", (m.PrepareProposalRequest(*BLOCK[:4], max_tx_bytes=77),), 9),
    ),
    (
        fill(PROCESS.process_proposal, PROCESS),
        Call("process_proposal", (m.ProcessProposalRequest(*BLOCK),), 9),
    ),
    (fill(EXTEND.extend_vote, EXTEND), Call("extend_vote", (), 9)),
    (
        pb.Request(
            verify_vote_extension=pb.RequestVerifyVoteExtension(
                hash=b"h", validator_address=b"v", height=9, vote_extension=b"e"
            )
        ),
        Call("verify_vote_extension", (b"e",), 9),
    ),
    (
        fill(FINALIZE.finalize_block, FINALIZE),
        Call("finalize_block", (m.FinalizeBlockRequest(*BLOCK, absent=None),), 9),
    ),
    (
        pb.Request(finalize_block=pb.RequestFinalizeBlock(height=9, decided_last_commit=VOTED)),
        # A vote for nothing is a vote: its validator was there.
        Call("finalize_block", (m.FinalizeBlockRequest((), 9, 0, b"", absent=(b"away", b"gone")),), 9),
    ),
    (
        pb.Request(finalize_block=pb.RequestFinalizeBlock(decided_last_commit=pb.CommitInfo(votes=VOTED.votes[:1]))),
        Call("finalize_block", (m.FinalizeBlockRequest((), 0, 0, b"", absent=()),), 0),
    ),
]


def unframed(answer: bytes) -> pb.Response:
    (payload,) = FrameReader().feed(answer)
    return pb.Response.FromString(payload)


@pytest.mark.parametrize(("request_", "expected"), REQUESTS, ids=lambda value: type(value).__name__)
def test_a_request_becomes_a_plain_value(request_: pb.Request, expected: m.CheckTxRequest | Call) -> None:
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
def test_bytes_that_are_not_a_request_are_refused(payload: bytes, reason: str) -> None:
    with pytest.raises(MalformedFrame, match=reason):
        wire.decode_request(payload)


def test_a_call_is_named_as_the_specification_names_it() -> None:
    assert [Call(kind).name for kind in ("info", "init_chain", "verify_vote_extension")] == [
        "Info",
        "InitChain",
        "VerifyVoteExtension",
    ]


RESULT = m.TxResult(3, "l", 5, 4, "c")
WIRE_RESULT = pb.ExecTxResult(code=3, log="l", gas_wanted=5, gas_used=4, codespace="c")

APPLIED = m.ApplySnapshotChunkResponse(m.ApplySnapshotChunkResult.RETRY, [1, 2], ["s"])
FINALIZED = m.FinalizeBlockResponse([m.TxResult(), RESULT, RESULT], b"a", [m.ValidatorPower(b"e" * 32, 1)])

ANSWERS = [
    (wire.encode_answer("exception", "bad"), pb.Response(exception=pb.ResponseException(error="bad"))),
    (wire.encode_answer("echo", "x"), pb.Response(echo=pb.ResponseEcho(message="x"))),
    (wire.FLUSHED, pb.Response(flush=pb.ResponseFlush())),
    (
        wire.encode_answer("info", m.InfoResponse(9, b"a", 2, "v", "d")),
        pb.Response(
            info=pb.ResponseInfo(data="d", version="v", app_version=2, last_block_height=9, last_block_app_hash=b"a")
        ),
    ),
    (wire.encode_answer("init_chain", b"a"), pb.Response(init_chain=pb.ResponseInitChain(app_hash=b"a"))),
    (wire.encode_answer("init_chain", b""), pb.Response(init_chain=pb.ResponseInitChain())),
    (
        wire.encode_answer("query", m.QueryResponse(1, "l", b"v", 3, "c")),
        pb.Response(query=pb.ResponseQuery(code=1, log="l", value=b"v", height=3, codespace="c")),
    ),
    (wire.encode_answer("query", m.QueryResponse()), pb.Response(query=pb.ResponseQuery())),
    (
        wire.encode_check_tx(RESULT),
        pb.Response(check_tx=pb.ResponseCheckTx.FromString(WIRE_RESULT.SerializeToString())),
    ),
    (wire.encode_check_tx(m.TxResult()), pb.Response(check_tx=pb.ResponseCheckTx())),
    (wire.encode_answer("commit", 8), pb.Response(commit=pb.ResponseCommit(retain_height=8))),
    (wire.encode_answer("commit", 0), pb.Response(commit=pb.ResponseCommit())),
    (
        wire.encode_answer("list_snapshots", [m.Snapshot(5, 1, 2, b"h", b"m")]),
        pb.Response(
            list_snapshots=pb.ResponseListSnapshots(
                snapshots=[pb.Snapshot(height=5, format=1, chunks=2, hash=b"h", metadata=b"m")]
            )
        ),
    ),
    (
        wire.encode_answer("offer_snapshot", m.OfferSnapshotResult.REJECT_FORMAT),
        pb.Response(offer_snapshot=pb.ResponseOfferSnapshot(result=pb.ResponseOfferSnapshot.REJECT_FORMAT)),
    ),
    (
        wire.encode_answer("load_snapshot_chunk", b"c"),
        pb.Response(load_snapshot_chunk=pb.ResponseLoadSnapshotChunk(chunk=b"c")),
    ),
    (
        wire.encode_answer("apply_snapshot_chunk", APPLIED),
        pb.Response(
            apply_snapshot_chunk=pb.ResponseApplySnapshotChunk(
                result=pb.ResponseApplySnapshotChunk.RETRY, refetch_chunks=[1, 2], reject_senders=["s"]
            )
        ),
    ),
    (
        wire.encode_answer("prepare_proposal", [b"1", b"2"]),
        pb.Response(prepare_proposal=pb.ResponsePrepareProposal(txs=[b"1", b"2"])),
    ),
    (
        wire.encode_answer("process_proposal", True),
        pb.Response(process_proposal=pb.ResponseProcessProposal(status=pb.ResponseProcessProposal.ACCEPT)),
    ),
    (
        wire.encode_answer("process_proposal", False),
        pb.Response(process_proposal=pb.ResponseProcessProposal(status=pb.ResponseProcessProposal.REJECT)),
    ),
    (wire.encode_answer("extend_vote", b""), pb.Response(extend_vote=pb.ResponseExtendVote())),
    (
        wire.encode_answer("verify_vote_extension", True),
        pb.Response(verify_vote_extension=pb.ResponseVerifyVoteExtension(status=pb.ResponseVerifyVoteExtension.ACCEPT)),
    ),
    (
        wire.encode_answer("verify_vote_extension", False),
        pb.Response(verify_vote_extension=pb.ResponseVerifyVoteExtension(status=pb.ResponseVerifyVoteExtension.REJECT)),
    ),
    (
        wire.encode_answer("finalize_block", FINALIZED),
        pb.Response(
            finalize_block=pb.ResponseFinalizeBlock(
                tx_results=[pb.ExecTxResult(), WIRE_RESULT, WIRE_RESULT],
                validator_updates=[pb.ValidatorUpdate(pub_key=pb.PublicKey(ed25519=b"e" * 32), power=1)],
                app_hash=b"a",
            )
        ),
    ),
    (
        wire.encode_answer("finalize_block", m.FinalizeBlockResponse([], b"")),
        pb.Response(finalize_block=pb.ResponseFinalizeBlock()),
    ),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS, ids=lambda value: type(value).__name__)
def test_an_answer_becomes_one_frame(answer: bytes, expected: pb.Response) -> None:
    assert unframed(answer) == expected


def test_every_kind_of_answer_is_covered() -> None:
    kinds = {field.name for field in pb.Response.DESCRIPTOR.oneofs_by_name["value"].fields}
    assert {expected.WhichOneof("value") for _, expected in ANSWERS} == kinds
