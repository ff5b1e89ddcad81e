"""The forwarder: follows the chain from a durable cursor, and delivers each event in order, at least once.

An event that cannot be delivered is retried, and those after it wait. The cursor moves on once the receiver has
answered with 2xx. It is written at most every `SAVE_EVERY_S`, so a crash repeats what was delivered since, with the
same ids.
"""

import asyncio
import os
import sys
import time
from contextlib import aclosing, suppress

from cairn.cli.forward.progress import Cursor, DeadLetter, Progress, other_chain
from cairn.cli.forward.receiver import GONE, Failure, Receiver
from cairn.cli.forward.sources import Source
from cairn.cli.forward.status import Status
from cairn.cli.forward.webhooks import Webhook
from cairn.cli.report import CommandFailed
from cairn.cli.screen import print_line
from cairn.client.errors import ChainChanged, ClientError
from cairn.client.transport import delays

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 60.0
SAVE_EVERY_S = 0.25
"""A save takes two syncs, which on most disks is longer than a delivery."""
SHOW_EVERY_S = 1.0
STATUS_EVERY_S = 5.0
STOP_S = 5.0
"""How long a delivery that is under way may take at a stop."""


class Forwarder:
    """Delivers what follows the cursor."""

    def __init__(
        self,
        source: Source,
        receiver: Receiver,
        progress: Progress,
        cursor: Cursor,
        dead_letter_after: int,
        quiet: bool,
    ) -> None:
        """With `dead_letter_after`, an event is given up after so many refusals; 0 is never."""
        self._source = source
        self._node = source.node
        self._receiver = receiver
        self._progress = progress
        self._cursor = self._saved_cursor = cursor
        self._saved_at = 0.0
        self._dead_letter_after = dead_letter_after
        self._quiet = quiet
        height = cursor.block_height
        self._status = Status("following", receiver.shown_url, self._node.url, cursor.chain_id, height, height)
        self._status.dead_letters = progress.count_dead_letters()
        self._shown = 0
        """How many deliveries the output tells of."""
        self._shown_at = 0.0

    async def run(self, stopping: asyncio.Event, last_height: int | None = None) -> None:
        """Return when `stopping` is set, or when the block at `last_height` is delivered."""
        delivering = asyncio.create_task(self._deliver_all(stopping, last_height))
        others = [asyncio.create_task(each) for each in (self._wait(stopping), self._keep_saving(), self._watch_node())]
        try:
            await asyncio.wait([delivering, *others], return_when=asyncio.FIRST_COMPLETED)
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await self._receiver.idle.wait()
        finally:
            for task in (delivering, *others):
                task.cancel()
            ended = await asyncio.gather(delivering, *others, return_exceptions=True)
            self._save()
            self._show_progress()
            self._status.state = "stopped"
            self._write_status()
        for failure in ended:
            if isinstance(failure, BaseException) and not isinstance(failure, asyncio.CancelledError):
                raise failure

    @staticmethod
    async def _wait(stopping: asyncio.Event) -> None:
        await stopping.wait()

    async def _deliver_all(self, stopping: asyncio.Event, last_height: int | None) -> None:
        if last_height is not None and self._cursor.block_height >= last_height:
            return
        try:
            async with aclosing(self._source.due(self._cursor)) as due:
                async for webhook, cursor in due:
                    if webhook is not None:
                        await self._deliver(webhook)
                    self._cursor = cursor
                    if time.monotonic() - self._saved_at >= SAVE_EVERY_S:
                        self._save()
                    if stopping.is_set() or cursor.block_height == last_height:
                        return
        except ChainChanged as changed:
            raise other_chain(str(changed), self._progress) from None

    async def _deliver(self, webhook: Webhook) -> None:
        """Return once it is delivered, or given up."""
        refusals = 0
        for attempts, delay_s in enumerate(delays(FIRST_DELAY_S, LONGEST_DELAY_S), start=1):
            failure = await self._receiver.post(webhook)
            if failure is None:
                self._note_delivery(webhook, attempts)
                return
            if failure.status == GONE:
                raise CommandFailed(
                    f"{self._receiver.shown_url} answers 410 Gone: it wants no more events. The first that it does not "
                    f"have is {webhook.id}"
                )
            refusals += failure.is_refusal
            if 0 < self._dead_letter_after <= refusals:
                self._give_up(webhook, attempts, failure)
                return
            pause_s = max(delay_s, failure.retry_after_s)
            self._note_failure(webhook, attempts, failure, pause_s)
            await asyncio.sleep(pause_s)

    def _give_up(self, webhook: Webhook, attempts: int, failure: Failure) -> None:
        letter = DeadLetter(webhook.id, webhook.body.decode(), attempts, failure.detail, int(time.time()))
        self._progress.add_dead_letter(letter)
        self._status.dead_letters += 1
        self._end_retries()
        _note(f"gave up {webhook.id} after {attempts} attempts: {failure.detail}; {self._progress.dead_letters_file}")

    def _note_delivery(self, webhook: Webhook, attempts: int) -> None:
        self._status.delivered += 1
        self._status.last_delivery_at = int(time.time())
        if attempts > 1:
            self._end_retries()
            _note(f"delivered {webhook.id} after {attempts} attempts")

    def _note_failure(self, webhook: Webhook, attempts: int, failure: Failure, pause_s: float) -> None:
        status, now_s = self._status, time.time()
        status.state, status.webhook_id, status.attempts = "retrying", webhook.id, attempts
        status.last_error, status.last_error_at = failure.detail, int(now_s)
        status.next_attempt_at = int(now_s + pause_s)
        self._write_status()
        _note(f"cannot deliver {webhook.id}: {failure.detail}; attempt {attempts + 1} in {pause_s:.1f} s")

    def _end_retries(self) -> None:
        status = self._status
        status.state, status.webhook_id, status.attempts, status.next_attempt_at = "following", None, 0, None
        self._write_status()

    async def _keep_saving(self) -> None:
        while True:
            await asyncio.sleep(SAVE_EVERY_S)
            self._save()
            if self._status.delivered != self._shown and time.monotonic() - self._shown_at >= SHOW_EVERY_S:
                self._write_status()
                self._show_progress()

    def _save(self) -> None:
        if self._cursor != self._saved_cursor:
            self._progress.save_cursor(self._cursor)
            self._saved_cursor = self._cursor
            self._saved_at = time.monotonic()

    def _show_progress(self) -> None:
        new, self._shown = self._status.delivered - self._shown, self._status.delivered
        self._shown_at = time.monotonic()
        if new and not self._quiet:
            count = "1 event" if new == 1 else f"{new} events"
            print_line(f"delivered {count}, up to block {self._cursor.block_height}")

    async def _watch_node(self) -> None:
        """Keep the status up to date, even while nothing happens."""
        while True:
            try:
                self._status.head_height = (await self._node.chain()).head.block_height
                self._status.node_error = None
            except ClientError as failure:
                if self._status.node_error is None:
                    _note(f"{failure}; waiting for it")
                self._status.node_error = str(failure)
            self._write_status()
            await asyncio.sleep(STATUS_EVERY_S)

    def _write_status(self) -> None:
        status = self._status
        status.block_height = self._cursor.block_height
        status.head_height = max(status.head_height, status.block_height)
        status.lag = status.head_height - status.block_height
        status.updated_at, status.process_id = int(time.time()), os.getpid()
        self._progress.write_status(status)


def _note(text: str) -> None:
    print_line(f"cairn: {text}", sys.stderr)
