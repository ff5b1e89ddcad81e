"""`cairn forward`: a real node, a real receiver that fails in every way, and kills on both sides."""

import base64
import hmac
import json
import os
import random
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cairn.client import Account, Client
from cairn.client.models import Payment
from tests.e2e.cli.conftest import User
from tests.support.certificates import make_certificate
from tests.support.node_process import NodeProcess, command, wait_until
from tests.support.pace import PATIENCE_S
from tests.support.ports import free_ports
from tests.support.rpc import rpc
from tests.support.webhook_receiver import Request, WebhookReceiver

KILLS = int(os.environ.get("FORWARD_KILLS", "6"))
"""`make kills` does more of them."""
MOST_BETWEEN = 40
"""Deliveries from one kill to the next, at most."""
SEED = int(os.environ.get("FORWARD_SEED", "0")) or random.randrange(1, 1 << 32)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[WebhookReceiver]:
    with WebhookReceiver(free_ports(1)[0], tmp_path / "receiver") as started:
        yield started


class Forwarding:
    """A running `cairn forward` whose files are in the user's home."""

    def __init__(self, user: User, receiver: WebhookReceiver, *args: str) -> None:
        self._user = user
        self.state = user.home / "state"
        self._log = user.home / "forward.log"
        self._env = user.env
        self.args = ["forward", "--to", receiver.url, "--state", str(self.state), *args]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command(self.args), env=user.env, stdout=log, stderr=log)

    @property
    def output(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.output or self.process.poll() is not None, PATIENCE_S, text)
        assert text in self.output, self.output

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def done(self) -> int:
        """The exit code once it ends by itself."""
        return self.process.wait(PATIENCE_S)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self._user.json("forward", "--state", str(self.state), "--status")
        return found

    def cursor(self) -> int:
        height: int = json.loads((self.state / "cursor.json").read_text())["blockHeight"]
        return height

    def wait_cursor(self, height: int) -> None:
        wait_until(lambda: self.cursor() == height, PATIENCE_S, f"the cursor at block {height}")

    def __enter__(self) -> "Forwarding":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def check_signatures(requests: Sequence[Request], state: Path) -> None:
    """Written against the specification, with nothing of ours."""
    key = base64.b64decode((state / "secret").read_text().strip().removeprefix("whsec_"))
    for request in requests:
        moment = request.headers["webhook-timestamp"]
        assert abs(int(moment) - request.at) < PATIENCE_S
        signed = f"{request.id}.{moment}.{request.body}".encode()
        expected = base64.b64encode(hmac.new(key, signed, "sha256").digest()).decode()
        assert request.headers["webhook-signature"] == f"v1,{expected}"


def heights(requests: Sequence[Request]) -> list[int]:
    return [json.loads(request.body)["data"]["blockHeight"] for request in requests]


def mine(url: str, count: int) -> int:
    """Make so many blocks. Returns the height of the latest."""
    rpc(url, "hardhat_mine", hex(count))
    return int(str(rpc(url, "eth_blockNumber")), 16)


def test_new_blocks_arrive_signed_and_the_next_run_goes_on_where_it_stopped(
    user: User, receiver: WebhookReceiver
) -> None:
    head = mine(user.url, 1)
    with Forwarding(user, receiver) as forwarding:
        forwarding.wait_for("cursor")
        assert f"newBlock, from block {head + 1} on\n" in forwarding.output
        assert "secret, made now" in forwarding.output
        mine(user.url, 3)
        requests = receiver.wait_taken(3)
        # The receiver writes down what it gets before it answers; a stop waits for that, but not for ever.
        forwarding.wait_cursor(head + 3)
        assert forwarding.end() == 0
    assert heights(requests) == [head + 1, head + 2, head + 3]
    assert forwarding.cursor() == head + 3
    check_signatures(requests, forwarding.state)
    block = user.json("block", str(head + 1))
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(block["timestamp"]))
    assert (requests[0].path, requests[0].id) == ("/hook", f"newBlock_{block['hash']}")
    assert json.loads(requests[0].body) == {
        "type": "newBlock",
        "timestamp": moment,
        "chainId": 1337,
        "data": {"event": "newBlock", "blockHeight": head + 1, "hash": block["hash"]},
    }
    mine(user.url, 2)
    with Forwarding(user, receiver, "--once") as again:
        assert again.done() == 0
    assert heights(receiver.taken()) == list(range(head + 1, head + 6))
    with Forwarding(user, receiver, "--once") as nothing_new:
        assert nothing_new.done() == 0
    assert len(receiver.requests()) == 5


@pytest.mark.parametrize("mode", ["fail", "busy", "redirect", "garbage", "reset", "hang"])
def test_a_receiver_in_trouble_gets_each_event_in_order_once_it_is_back(
    user: User, receiver: WebhookReceiver, mode: str
) -> None:
    head = mine(user.url, 2)
    receiver.answer_with(mode)
    # Only one that does not answer is to be given up soon: a busy machine may take a second for any answer.
    given_up = ("--timeout", "1") if mode == "hang" else ()
    with Forwarding(user, receiver, "--from-height", str(head - 1), *given_up) as forwarding:
        receiver.wait_for(2)
        forwarding.wait_for("attempt 3 in")
        # The node is asked for its height beside the deliveries.
        wait_until(lambda: forwarding.status()["lag"] == 2, PATIENCE_S, "the lag")
        status = forwarding.status()
        assert (status["state"], status["blockHeight"]) == ("retrying", head - 2)
        assert status["attempts"] >= 2
        assert status["lastError"]
        assert forwarding.cursor() == head - 2
        receiver.answer_with("ok")
        receiver.wait_taken(2)
        forwarding.wait_for("delivered newBlock_")
        assert forwarding.end() == 0
    # One that was given up may have been taken all the same, and is repeated then.
    assert list(dict.fromkeys(heights(receiver.taken()))) == [head - 1, head]
    failed = [request for request in receiver.requests() if not request.was_taken]
    assert {request.id for request in failed} == {receiver.taken()[0].id}
    assert {request.path for request in failed} == {"/hook"}
    check_signatures(receiver.requests(), forwarding.state)


@pytest.mark.parametrize("mode", ["short", "endless", "slow"])
def test_a_receiver_that_has_said_2xx_has_it_whatever_follows(user: User, receiver: WebhookReceiver, mode: str) -> None:
    head = mine(user.url, 3)
    receiver.answer_with(mode)
    with Forwarding(user, receiver, "--from-height", str(head - 2), "--once") as forwarding:
        assert forwarding.done() == 0
    assert heights(receiver.requests()) == [head - 2, head - 1, head]


def test_kills_of_both_sides_lose_nothing_and_repeat_with_the_same_id(user: User, receiver: WebhookReceiver) -> None:
    chance = random.Random(SEED)
    receiver.answer_with("chaos")
    for _ in range(KILLS):
        # However many were delivered before the last kill came: there are always enough for the next.
        head = mine(user.url, MOST_BETWEEN)
        wanted = receiver.count() + chance.randrange(1, MOST_BETWEEN)
        with Forwarding(user, receiver, "--from-height", "0", "--quiet") as forwarding:
            receiver.wait_for(wanted)
            if chance.random() < 0.3:
                receiver.kill()
                receiver.start()
            forwarding.end(signal.SIGKILL)
    receiver.answer_with("ok")
    with Forwarding(user, receiver, "--once", "--quiet") as last:
        assert last.done() == 0
    assert_complete(receiver.taken(), range(head + 1))
    assert last.cursor() == head
    check_signatures(receiver.requests(), last.state)


def assert_complete(taken: Sequence[Request], expected: Sequence[int]) -> None:
    """Each of them, in order; what is repeated goes back to one that was taken, and has the same id and body."""
    assert taken, f"seed {SEED}"
    furthest = -1
    by_id: dict[str, str] = {}
    for request, height in zip(taken, heights(taken), strict=True):
        assert height <= furthest + 1, f"seed {SEED}: block {height} after {furthest}"
        furthest = max(furthest, height)
        assert by_id.setdefault(request.id, request.body) == request.body
    assert len(by_id) == len(expected)
    assert furthest == expected[-1]


def test_a_stop_waits_for_the_answer_that_is_under_way(user: User, receiver: WebhookReceiver) -> None:
    head = mine(user.url, 1)
    receiver.answer_with("slow")
    with Forwarding(user, receiver, "--from-height", str(head)) as forwarding:
        receiver.wait_for(1)
        assert forwarding.end() == 0
    assert forwarding.cursor() == head


def test_a_stop_gives_up_an_answer_that_does_not_come(user: User, receiver: WebhookReceiver) -> None:
    head = mine(user.url, 1)
    receiver.answer_with("hang")
    with Forwarding(user, receiver, "--from-height", str(head), "--timeout", "600") as forwarding:
        receiver.wait_for(1)
        assert forwarding.end(signal.SIGINT) == 0
    assert forwarding.cursor() == head - 1
    status = user.run("forward", "--state", str(forwarding.state), "--status")
    assert (status.returncode, status.stdout.split("\n")[0].split(",")[0]) == (0, "state      stopped")


def test_410_ends_it_and_keeps_the_cursor(user: User, receiver: WebhookReceiver) -> None:
    head = mine(user.url, 1)
    receiver.answer_with("gone")
    with Forwarding(user, receiver, "--from-height", str(head)) as forwarding:
        assert forwarding.done() == 1
    assert "410 Gone" in forwarding.output
    assert forwarding.cursor() == head - 1


def test_refused_events_are_given_up_only_if_told_to_and_kept_in_a_file(user: User, receiver: WebhookReceiver) -> None:
    head = mine(user.url, 2)
    receiver.answer_with("fail")
    args = ("--from-height", str(head - 1), "--dead-letter-after", "2", "--once")
    with Forwarding(user, receiver, *args) as forwarding:
        assert forwarding.done() == 0
    letters = [json.loads(line) for line in (forwarding.state / "dead-letters.ndjson").read_text().splitlines()]
    assert [json.loads(letter["body"])["data"]["blockHeight"] for letter in letters] == [head - 1, head]
    assert [(letter["attempts"], letter["lastError"]) for letter in letters] == 2 * [(2, "500 Because: why")]
    assert heights(receiver.requests()) == [head - 1, head - 1, head, head]
    assert forwarding.cursor() == head


def test_a_receiver_that_is_away_loses_nothing_to_the_dead_letters(user: User, receiver: WebhookReceiver) -> None:
    head = mine(user.url, 1)
    receiver.kill()
    with Forwarding(user, receiver, "--from-height", str(head), "--dead-letter-after", "1") as forwarding:
        forwarding.wait_for("attempt 3 in")
        receiver.start()
        receiver.wait_taken(1)
        assert forwarding.end() == 0
    assert not (forwarding.state / "dead-letters.ndjson").exists()


def test_a_second_one_on_the_same_cursor_is_refused(user: User, receiver: WebhookReceiver) -> None:
    with Forwarding(user, receiver) as first:
        first.wait_for("cursor")
        second = user.run(*first.args)
    assert second.returncode == 2
    assert "another `cairn forward` uses" in second.stderr


def test_a_chain_that_was_started_anew_is_refused_by_name(user: User, receiver: WebhookReceiver) -> None:
    mine(user.url, 1)
    with Forwarding(user, receiver, "--once") as forwarding:
        assert forwarding.done() == 0
    with NodeProcess.start_dev("--block-time", "86400") as other:
        shorter = user.run(*forwarding.args, CAIRN_NODE=other.url)
        mine(other.url, forwarding.cursor() + 1)
        longer = user.run(*forwarding.args, CAIRN_NODE=other.url)
    for refused in (shorter, longer):
        assert refused.returncode == 2
        assert "another chain" in refused.stderr
        assert "cursor.json to start over" in refused.stderr
    assert receiver.requests() == []


def test_a_chain_with_another_id_is_refused_by_name(user: User, receiver: WebhookReceiver) -> None:
    with Forwarding(user, receiver, "--once") as forwarding:
        assert forwarding.done() == 0
    with NodeProcess.start_dev("--chain-id", "4711") as other:
        refused = user.run(*forwarding.args, CAIRN_NODE=other.url)
    assert (refused.returncode, "of chain 1337" in refused.stderr) == (2, True)


def test_a_revert_of_what_was_delivered_ends_it(user: User, receiver: WebhookReceiver) -> None:
    snapshot = rpc(user.url, "evm_snapshot")
    with Forwarding(user, receiver) as forwarding:
        forwarding.wait_for("cursor")
        mine(user.url, 2)
        receiver.wait_taken(2)
        assert rpc(user.url, "evm_revert", snapshot) is True
        assert forwarding.done() == 2
    assert "reverted" in forwarding.output


def test_a_node_that_restarts_is_waited_for(user: User, receiver: WebhookReceiver, tmp_path: Path) -> None:
    port = str(free_ports(1)[0])
    with NodeProcess.start_dev("--port", port, data_dir=tmp_path / "data") as node:
        head = mine(node.url, 1)
        user.env["CAIRN_NODE"] = node.url
        forwarding = Forwarding(user, receiver)
        forwarding.wait_for("cursor")
    with forwarding, NodeProcess.start_dev("--port", port, data_dir=tmp_path / "data") as node:
        mine(node.url, 2)
        receiver.wait_taken(2)
        assert forwarding.end() == 0
    assert heights(receiver.taken()) == [head + 1, head + 2]


def test_a_damaged_cursor_is_not_begun_anew(user: User, receiver: WebhookReceiver) -> None:
    with Forwarding(user, receiver, "--once") as forwarding:
        assert forwarding.done() == 0
    (forwarding.state / "cursor.json").write_text('{"chainId":1337,')
    refused = user.run(*forwarding.args)
    assert (refused.returncode, "is damaged" in refused.stderr) == (2, True)


def test_no_node_is_said_at_once(user: User, receiver: WebhookReceiver) -> None:
    failed = user.run("forward", "--to", receiver.url, CAIRN_NODE="http://127.0.0.1:1")
    assert (failed.returncode, "does not answer" in failed.stderr) == (5, True)


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
def test_a_certificate_that_nobody_vouches_for_gets_nothing(user: User, tmp_path: Path, scheme: str) -> None:
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    received: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.headers["webhook-id"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    head = mine(user.url, 1)
    args = ("forward", "--to", f"{scheme}://localhost:{server.server_port}/", "--from-height", str(head), "--once")
    try:
        with subprocess.Popen(command(args), env=user.env, stderr=subprocess.PIPE, text=True) as refused:
            assert refused.stderr is not None
            assert "certificate verify failed" in refused.stderr.readline()
            assert received == []
            refused.kill()
        assert user.run(*args, SSL_CERT_FILE=certificate).returncode == 0
    finally:
        server.shutdown()
        server.server_close()
    assert len(received) == 1


def pay_all(url: str, payments: Sequence[tuple[int, int, str]]) -> list[Payment]:
    """Pay from dev account 0: to which, how much, and what for. Returns all of its payments, in the chain's order."""
    with Client(url, timeout_s=PATIENCE_S) as client:
        wallet = client.wallet(Account.dev(0))
        sent = [wallet.send(Account.dev(to).address, value, reference=text or None) for to, value, text in payments]
        list(client.confirmations(sent))
        expected = []
        for payment in client.payments(Account.dev(0).address, from_height=0, direction="out"):
            expected.append(payment)
            if len(set(sent) - {each.tx_hash for each in expected}) == 0:
                return expected
    raise AssertionError("payments never end")


def paid(requests: Sequence[Request]) -> list[tuple[int, int]]:
    """The places of the payments in the chain."""
    events = [json.loads(request.body)["data"] for request in requests]
    return [(event["blockHeight"], event["transactionIndex"]) for event in events]


@pytest.fixture
def own_node(user: User) -> Iterator[NodeProcess]:
    """A chain that holds the test's own payments only."""
    with NodeProcess.start_dev("--block-time", "0.01") as started:
        user.env["CAIRN_NODE"] = user.url = started.url
        yield started


@pytest.mark.parametrize(("direction", "values"), [("in", [1, 2**70]), ("out", [2]), ("both", [1, 2, 2**70])])
def test_payments_of_an_address_arrive_with_what_they_are_for(
    user: User, own_node: NodeProcess, receiver: WebhookReceiver, direction: str, values: list[int]
) -> None:
    pay_all(own_node.url, [(1, 1, "invoice 4711"), (2, 7, "")])
    assert user.run("send", "dev1", "dev2", "2", "--yes").returncode == 0
    pay_all(own_node.url, [(1, 2**70, "")])
    with Forwarding(user, receiver, "--address", "dev1", "--from-height", "0", "--direction", direction) as forwarding:
        requests = receiver.wait_taken(len(values))
        assert forwarding.end() == 0
    events = [json.loads(request.body) for request in requests]
    assert [event["data"]["value"] for event in events] == values
    check_signatures(requests, forwarding.state)
    first = next(event for event in events if event["data"]["value"] == values[0])
    block = user.json("block", str(first["data"]["blockHeight"]))
    assert requests[0].id == f"payment_{first['data']['txHash']}_{block['hash'][2:10]}"
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(block["timestamp"]))
    assert (first["type"], first["chainId"], first["timestamp"]) == ("payment", 1337, moment)
    if direction != "out":
        assert first["data"]["reference"] == "invoice 4711"


def test_amounts_can_be_strings_for_receivers_that_round(
    user: User, own_node: NodeProcess, receiver: WebhookReceiver
) -> None:
    pay_all(own_node.url, [(1, 2**70, "")])
    with Forwarding(user, receiver, "--address", "dev1", "--from-height", "0", "--amounts", "string"):
        [request] = receiver.wait_taken(1)
    assert json.loads(request.body)["data"]["value"] == str(2**70)


def test_kills_among_the_payments_of_a_block_lose_none(
    user: User, own_node: NodeProcess, receiver: WebhookReceiver, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    with Client(own_node.url, timeout_s=PATIENCE_S) as client:
        wallet = client.wallet(Account.dev(0))
        sent = wallet.send_all([(Account.dev(1 + number % 3).address, 1) for number in range(MOST_BETWEEN * KILLS)])
        client.wait(str(sent[-1]), PATIENCE_S)
        own = {Account.dev(1).address.lower(), Account.dev(2).address.lower()}
        history = [tx for tx in client.history(Account.dev(0).address) if tx.to in own]
    expected = sorted((tx.block_height, tx.transaction_index) for tx in history)
    file = tmp_path / "addresses"
    file.write_text("# those that are followed\n" + "\n".join(own) + "\n")
    args = ("--addresses-file", str(file), "--from-height", "0", "--quiet")
    receiver.answer_with("chaos")
    for _ in range(KILLS // 2):
        wanted = receiver.count() + chance.randrange(1, MOST_BETWEEN)
        with Forwarding(user, receiver, *args) as forwarding:
            # On a slow machine a kill may come when all was delivered.
            wait_until(
                lambda: receiver.count() >= wanted or paid(receiver.taken())[-1:] == expected[-1:],  # noqa: B023
                PATIENCE_S,
                f"{wanted} requests",
            )
            forwarding.end(signal.SIGKILL)
    receiver.answer_with("ok")
    with Forwarding(user, receiver, *args) as forwarding:
        wait_until(lambda: paid(receiver.taken())[-1:] == expected[-1:], PATIENCE_S, "the last payment")
        assert forwarding.end() == 0
    furthest = -1
    for place in paid(receiver.taken()):
        assert expected.index(place) <= furthest + 1, f"seed {SEED}"
        furthest = max(furthest, expected.index(place))
    assert furthest == len(expected) - 1
    by_id = {request.id: request.body for request in receiver.requests()}
    assert len(by_id) == len(expected)
    assert {by_id[request.id] == request.body for request in receiver.requests()} == {True}
    check_signatures(receiver.requests(), forwarding.state)


def test_blocks_without_payments_move_the_cursor(user: User, own_node: NodeProcess, receiver: WebhookReceiver) -> None:
    with Forwarding(user, receiver, "--address", "dev1") as forwarding:
        forwarding.wait_for("cursor")
        # It may not have subscribed yet when the first ones are made.
        head = mine(own_node.url, 1)
        wait_until(lambda: mine(own_node.url, 1) > head and forwarding.cursor() > head, PATIENCE_S, "the cursor")
        assert forwarding.end() == 0
    pay_all(own_node.url, [(1, 5, "")])
    with Forwarding(user, receiver, "--address", "dev1") as forwarding:
        receiver.wait_taken(1)
        pay_all(own_node.url, [(1, 6, "")])
        receiver.wait_taken(2)
        assert forwarding.end() == 0
    assert len(receiver.requests()) == 2


def test_a_payment_that_is_taken_back_ends_it(user: User, own_node: NodeProcess, receiver: WebhookReceiver) -> None:
    snapshot = rpc(own_node.url, "evm_snapshot")
    with Forwarding(user, receiver, "--address", "dev1") as forwarding:
        forwarding.wait_for("cursor")
        pay_all(own_node.url, [(1, 5, "")])
        receiver.wait_taken(1)
        assert rpc(own_node.url, "evm_revert", snapshot) is True
        assert forwarding.done() == 2
    assert "reverted" in forwarding.output


def test_once_is_not_for_payments(user: User, receiver: WebhookReceiver) -> None:
    refused = user.run("forward", "--to", receiver.url, "--address", "dev1", "--once")
    assert refused.returncode == 2
    assert "--once is for blocks only: that a block has no more payments is known when the next" in refused.stderr


def test_quiet_says_nothing_while_all_is_well(user: User, receiver: WebhookReceiver) -> None:
    head = mine(user.url, 1)
    done = user.run("forward", "--to", receiver.url, "--from-height", str(head), "--once", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert heights(receiver.taken()) == [head]


def test_a_directory_of_blocks_is_not_gone_on_with_for_payments(user: User, receiver: WebhookReceiver) -> None:
    with Forwarding(user, receiver, "--once") as forwarding:
        assert forwarding.done() == 0
    refused = user.run("forward", "--to", receiver.url, "--state", str(forwarding.state), "--address", "dev1")
    assert refused.returncode == 2
    assert "was used for newBlock events, and now payment events are to be sent" in refused.stderr


def test_another_url_goes_on_where_the_one_before_stopped(user: User, receiver: WebhookReceiver) -> None:
    head = mine(user.url, 1)
    with Forwarding(user, receiver, "--from-height", str(head), "--once") as forwarding:
        assert forwarding.done() == 0
    mine(user.url, 1)
    moved = user.run("forward", "--to", f"{receiver.url}/moved", "--state", str(forwarding.state), "--once")
    assert moved.returncode == 0
    taken = receiver.taken()
    assert list(zip([each.path for each in taken], heights(taken), strict=True)) == [
        ("/hook", head),
        ("/hook/moved", head + 1),
    ]


def test_without_a_url_it_says_what_to_add(user: User) -> None:
    for args in (["forward", "--status"], ["forward"], ["forward", "--state", str(user.home / "state")]):
        refused = user.run(*args)
        assert (refused.returncode, "where to? --to" in refused.stderr) == (2, True)
    assert not (user.home / "state").exists()


def test_settings_can_be_in_a_file_whose_paths_are_relative_to_it(user: User, receiver: WebhookReceiver) -> None:
    head = mine(user.url, 1)
    file = user.home / "forward.toml"
    file.write_text(f'[forward]\nto = "{receiver.url}"\nstate = "here"\nfrom_height = {head}\n')
    assert user.run("forward", "--config", str(file), "--once").returncode == 0
    assert (user.home / "here" / "cursor.json").exists()
    assert heights(receiver.taken()) == [head]
