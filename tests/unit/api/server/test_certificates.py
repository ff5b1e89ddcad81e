"""Certificates: how long they are valid, and what happens when their files change."""

import asyncio
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cairn.api.server import certificates as module
from cairn.api.server.certificates import REMIND_S, Certificates, Pair, keep, read_validity
from cairn.domain.errors import InvalidConfig
from tests.support.certificates import make_certificate

DAY_S = 86_400.0


class Files:
    """Two pairs, and the one in use, which can be overwritten in parts."""

    def __init__(self, directory: Path) -> None:
        self._pairs = []
        for name in ("old", "new"):
            (directory / name).mkdir()
            self._pairs.append(make_certificate(directory / name, days=100))
        self.pair = Pair(str(directory / "cert.pem"), str(directory / "key.pem"))
        self.use(0)

    def use(self, which: int, certificate: bool = True, key: bool = True) -> None:
        for wanted, source, target in zip(
            (certificate, key), self._pairs[which], (self.pair.certificate, self.pair.key), strict=True
        ):
            if wanted:
                # As renewals do it.
                shutil.copyfile(source, f"{target}.new")
                os.replace(f"{target}.new", target)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def files(made: Files) -> Files:
    made.use(0)
    return made


@pytest.mark.parametrize(
    ("days_from_now", "told"),
    [
        (-1, ["the TLS certificate is not valid yet"]),
        (0.01, []),
        (85, []),
        (87, ["the TLS certificate expires soon"]),
        (101, ["the TLS certificate has expired"]),
    ],
)
def test_a_certificate_is_spoken_of_unless_it_is_valid_for_two_weeks(
    files: Files, days_from_now: float, told: list[str]
) -> None:
    with capture_logs() as logs:
        Certificates(files.pair, clock=lambda: time.time() + days_from_now * DAY_S)
    assert [line["event"] for line in logs] == told
    assert all(line["file"] == files.pair.certificate for line in logs)


def test_of_several_workers_only_one_speaks(files: Files) -> None:
    with capture_logs() as logs:
        Certificates(files.pair, speaks=False, clock=lambda: time.time() + 1_000 * DAY_S)
    assert logs == []


def test_a_renewed_pair_is_used_and_told_of_once(files: Files) -> None:
    used = Certificates(files.pair)
    before = used.context
    with capture_logs() as logs:
        asyncio.run(used.renew(files.pair))
        assert used.context is before
        files.use(1)
        asyncio.run(used.renew(files.pair))
        after = used.context
        assert after is not before
        asyncio.run(used.renew(files.pair))
    assert used.context is after
    assert [line["event"] for line in logs] == ["the TLS certificate was read again"]


@pytest.mark.parametrize("half", ["certificate", "key"])
def test_a_half_renewed_pair_leaves_the_one_before_until_the_other_half_is_there(files: Files, half: str) -> None:
    used = Certificates(files.pair)
    before = used.context
    with capture_logs() as logs:
        files.use(1, certificate=half == "certificate", key=half == "key")
        for _ in range(3):
            asyncio.run(used.renew(files.pair))
        assert used.context is before
        files.use(1)
        asyncio.run(used.renew(files.pair))
    assert used.context is not before
    assert [line["log_level"] for line in logs] == ["error", "info"]
    assert "cannot use tls_cert" in logs[0]["reason"]


@pytest.mark.parametrize("content", [b"", b"rubbish", b"-----BEGIN CERTIFICATE-----\nMIID", None])
def test_a_file_that_is_cut_short_or_gone_leaves_the_pair_before(files: Files, content: bytes | None) -> None:
    used = Certificates(files.pair)
    before = used.context
    if content is None:
        Path(files.pair.certificate).unlink()
    else:
        Path(files.pair.certificate).write_bytes(content)
    with capture_logs() as logs:
        asyncio.run(used.renew(files.pair, asked=True))
    assert used.context is before
    assert [line["log_level"] for line in logs] == ["error"]


def test_a_worker_that_starts_while_a_pair_is_half_renewed_serves_with_the_one_that_the_node_started_with(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_kept", {})
    keep(files.pair)
    files.use(1, key=False)
    with capture_logs() as logs:
        used = Certificates(files.pair)
        before = used.context
        asyncio.run(used.renew(files.pair))
        assert used.context is before
        files.use(1)
        asyncio.run(used.renew(files.pair))
    assert used.context is not before
    assert [line["event"] for line in logs] == [
        "the new TLS certificate is not used, the one before stays",
        "the TLS certificate was read again",
    ]


def test_a_pair_that_could_not_be_read_for_a_moment_is_read_again_though_its_files_are_the_same(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = Certificates(files.pair)
    before = used.context
    files.use(1)

    def fail(pair: Pair) -> None:
        raise InvalidConfig("too many open files")

    with monkeypatch.context() as busy:
        busy.setattr(Pair, "load", fail)
        asyncio.run(used.renew(files.pair))
    assert used.context is before
    with capture_logs() as logs:
        asyncio.run(used.renew(files.pair))
        asyncio.run(used.renew(files.pair))
    assert used.context is not before
    assert [line["event"] for line in logs] == ["the TLS certificate was read again"]


def test_new_paths_are_used_when_they_hold_a_pair(files: Files, tmp_path: Path) -> None:
    used = Certificates(files.pair)
    before = used.context
    asyncio.run(used.renew(Pair(str(tmp_path / "missing.pem"), files.pair.key), asked=True))
    assert used.context is before
    other = Pair(*make_certificate(tmp_path))
    asyncio.run(used.renew(other, asked=True))
    assert used.context is not before


def test_files_are_looked_at_each_minute_and_what_is_left_is_said_each_day(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECHECK_S", 0.0)
    now = time.time() + 90 * DAY_S

    async def run() -> list[str]:
        nonlocal now
        with capture_logs() as logs:
            used = Certificates(files.pair, clock=lambda: now)
            before = used.context
            watching = asyncio.create_task(used.watch())
            files.use(1)
            while used.context is before:
                await asyncio.sleep(0.001)
            now += REMIND_S
            while len(logs) < 4:
                await asyncio.sleep(0.001)
            watching.cancel()
        return [line["event"] for line in logs]

    soon = "the TLS certificate expires soon"
    assert asyncio.run(run()) == [soon, "the TLS certificate was read again", soon, soon]


def test_a_pair_that_does_not_fit_is_refused_at_the_start(files: Files) -> None:
    files.use(1, key=False)
    with pytest.raises(InvalidConfig, match="cannot use tls_cert"):
        Certificates(files.pair)


@pytest.mark.parametrize("days", [10, 20_000])
def test_the_times_of_a_certificate_are_read_before_and_after_2050(tmp_path: Path, days: int) -> None:
    certificate, _ = make_certificate(tmp_path, days)
    # Some tools write the content in words above it.
    begins, ends = read_validity(b"Certificate of this node\n" + Path(certificate).read_bytes())
    assert abs(begins.timestamp() - time.time()) < DAY_S
    assert (ends - begins).days == days
    assert (ends.year >= 2050) == (days == 20_000)


def test_two_digits_of_a_year_are_from_1950_to_2049() -> None:
    assert module._time(0x17, b"491231235959Z") == datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert module._time(0x17, b"500101000000Z") == datetime(1950, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_has_no_times(pem: bytes) -> None:
    with pytest.raises(ValueError, match="certificate"):
        read_validity(pem)
