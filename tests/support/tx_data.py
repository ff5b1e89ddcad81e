"""Data that transfers carry in tests: none, text, zeros, and as much as a chain allows."""

from hypothesis import strategies as st

MOST = 256
_SOME = (b"", "Rechnung 4711, für März".encode(), b"", bytes(MOST), b"", b"\0", b"", b"\xff" * MOST, b"", b"\xff" * 139)

data_fields = st.one_of(st.just(b""), st.binary(max_size=MOST), st.sampled_from([b"\0", bytes(MOST), b"\xff" * MOST]))


def data_by_number(number: int) -> bytes:
    """Some data for a number, always the same; none for an even one."""
    return _SOME[number % len(_SOME)]


def gas_of(data: bytes) -> int:
    """What a transfer with this data uses, byte by byte."""
    return 21_000 + sum(16 if byte else 4 for byte in data)
