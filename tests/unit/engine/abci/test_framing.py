import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn.engine.abci import wire
from cairn.engine.abci.proto import abci_pb2 as pb
from cairn.engine.abci.wire import FrameReader, MalformedFrame, frame, proposed_size_bytes

SIZES = [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152]


@pytest.mark.parametrize("size_bytes", SIZES)
def test_a_message_of_any_size_comes_back(size_bytes: int) -> None:
    payload = bytes(size_bytes)
    assert list(FrameReader().feed(frame(payload))) == [payload]


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(0, 3000), max_size=10))
def test_any_cuts_give_the_same_messages(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, payloads))
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = FrameReader()
    found = [one for start, end in zip(edges, edges[1:], strict=False) for one in reader.feed(stream[start:end])]
    assert found == payloads


def test_a_stream_that_arrives_byte_by_byte_gives_the_same_messages() -> None:
    payloads = [b"", b"a" * 200, b"b" * 20_000, b"c"]
    reader = FrameReader()
    stream = b"".join(map(frame, payloads))
    found = [one for at in range(len(stream)) for one in reader.feed(stream[at : at + 1])]
    assert found == payloads


def test_a_longer_message_than_allowed_is_refused_by_its_length_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 1_000)
    reader = FrameReader()
    assert list(reader.feed(frame(bytes(1_000)))) == [bytes(1_000)]
    with pytest.raises(MalformedFrame, match="1001 bytes is longer than 1000"):
        list(reader.feed(frame(bytes(1_001))[:2]))


def test_the_messages_before_a_bad_length_are_given_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 10)
    messages = FrameReader().feed(frame(b"good") + frame(bytes(11)))
    assert next(messages) == b"good"
    with pytest.raises(MalformedFrame):
        next(messages)


def test_a_length_without_an_end_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="five bytes"):
        list(FrameReader().feed(b"\xff" * 5))


def test_a_length_cut_in_the_middle_waits() -> None:
    reader = FrameReader()
    assert list(reader.feed(b"\xff\xff\xff\xff"[:2])) == []
    with pytest.raises(MalformedFrame):
        list(reader.feed(b"\xff\xff\xff"))


@pytest.mark.parametrize("size_bytes", SIZES)
def test_a_proposed_transaction_counts_as_cometbft_counts_it(size_bytes: int) -> None:
    # A field of a message: its tag, its length, itself.
    assert proposed_size_bytes(bytes(size_bytes)) == pb.ResponsePrepareProposal(txs=[bytes(size_bytes)]).ByteSize()
