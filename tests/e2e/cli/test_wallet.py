"""Making keys, signing and paying, as a person does at a terminal and as a script does in a pipe."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from eth_account import Account

from cairn.domain.crypto import address_of_key, checksum_address
from cairn.domain.genesis import DEV_KEYS
from tests.e2e.cli.conftest import PASSWORD, User
from tests.support.commands import run_here
from tests.support.node_process import NodeProcess, command
from tests.support.pace import PATIENCE_S
from tests.support.programs import need_program
from tests.support.public import get_anew, post_anew

ALICE = checksum_address(DEV_KEYS[5][0])
STRANGER_KEY = bytes([7]) * 32
STRANGER = checksum_address(address_of_key(STRANGER_KEY))


def balance_of(url: str, address: str) -> int:
    balance: int = get_anew(f"{url}/account/{address}").json()["balance"]
    return balance


def test_a_key_is_made_at_a_terminal_and_its_password_is_never_shown(user: User) -> None:
    with user.at_terminal("keys", "new", "alice") as terminal:
        terminal.expect("New password for alice: ")
        terminal.enter("s3cret\n")
        terminal.expect("Again: ")
        terminal.enter("s3cret\n")
        terminal.expect("Keep a copy of this file and of its password")
        assert terminal.wait() == 0
        assert "s3cret" not in terminal.raw
    document = (user.keys / "alice.json").read_text()
    address = Account.from_key(Account.decrypt(document, "s3cret")).address
    assert user.json("keys", "list") == [{"name": "alice", "address": address, "path": str(user.keys / "alice.json")}]


def test_two_passwords_that_differ_make_no_key(user: User) -> None:
    with user.at_terminal("keys", "new", "alice") as terminal:
        terminal.expect("New password for alice: ")
        terminal.enter("one\n")
        terminal.expect("Again: ")
        terminal.enter("two\n")
        terminal.expect("cairn: the two passwords differ; nothing was written")
        assert terminal.wait() == 2
    assert user.json("keys", "list") == []


def test_a_private_key_is_typed_unseen(user: User) -> None:
    with user.at_terminal("keys", "import", "alice", CAIRN_PASSWORD=PASSWORD) as terminal:
        terminal.expect("Private key or mnemonic: ")
        terminal.enter(f"{DEV_KEYS[5][1].hex()}\n")
        terminal.expect(ALICE)
        assert terminal.wait() == 0
        assert DEV_KEYS[5][1].hex() not in terminal.raw


def test_without_a_terminal_a_password_is_not_waited_for(alice: User) -> None:
    result = alice.run("send", "alice", "dev1", "1wei")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "cairn: there is no terminal to ask at; use --password-file FILE or CAIRN_PASSWORD\n"


def test_a_payment_at_a_terminal_is_asked_about_first(alice: User) -> None:
    before = balance_of(alice.url, STRANGER)
    for answer, password, exit_code, told in (
        ("n", None, 1, "cairn: nothing was sent"),
        ("", None, 1, "cairn: nothing was sent"),
        ("y", "wrong", 7, "cairn: wrong password for key alice; nothing was done"),
    ):
        with alice.at_terminal("send", "alice", STRANGER, "1.5coins") as terminal:
            terminal.expect(f"from    alice ({ALICE})")
            terminal.expect("amount  1.5 coins, and a fee of 21,000 gwei")
            terminal.expect("Send it? [y/N] ")
            terminal.enter(f"{answer}\n")
            if password is not None:
                terminal.expect("Password of alice: ")
                terminal.enter(f"{password}\n")
            terminal.expect(told)
            assert terminal.wait() == exit_code
    assert balance_of(alice.url, STRANGER) == before
    with alice.at_terminal("send", "alice", STRANGER, "1.5coins") as terminal:
        terminal.expect("Send it? [y/N] ")
        terminal.enter("y\n")
        terminal.expect("Password of alice: ")
        terminal.enter(f"{PASSWORD}\n")
        terminal.expect(f"sent       1.5 coins from alice to {STRANGER}")
        terminal.expect("hash       0x")
        terminal.expect("confirmed  in block ")
        assert terminal.wait() == 0
    assert balance_of(alice.url, STRANGER) == before + 15 * 10**17


def test_a_script_is_not_asked_and_gets_the_interface_s_own_json(alice: User) -> None:
    told = alice.json("send", "alice", "dev1", "20gwei", CAIRN_PASSWORD=PASSWORD)
    assert told == get_anew(f"{alice.url}/tx/{told['txHash']}").json()
    assert (told["status"], told["from"], told["value"]) == ("confirmed", ALICE.lower(), 20 * 10**9)
    pending = alice.json("send", "alice", "dev1", "1", "--no-wait", "--yes", CAIRN_PASSWORD=PASSWORD)
    assert pending == {"status": "pending", "txHash": pending["txHash"]}
    assert alice.json("tx", pending["txHash"], "--wait", str(PATIENCE_S))["status"] == "confirmed"


def test_a_reference_that_is_longer_than_the_chain_allows_is_refused_before_the_password_is_asked_for(
    alice: User,
) -> None:
    result = alice.invoke("send", "alice", "dev1", "1", "--reference", "a" * 257)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("cairn: the data has 257 bytes; this chain takes 256")


def test_a_transfer_with_a_reference_is_signed_offline_and_sent_later(alice: User) -> None:
    alone = ("--nonce", "0", "--gas-price", "1gwei", "--chain-id", "1337", "--node", "http://127.0.0.1:1")
    args = ("sign", "dev8", STRANGER, "5", "--reference", "invoice 4711", *alone)
    assert 'reference    "invoice 4711"\nfee          21,192 gwei\n' in alice.invoke(*args).stdout
    body = alice.json(*args)
    assert (body["data"], body["gas"]) == ("0x" + b"invoice 4711".hex(), 21_192)
    tx_hash = post_anew(f"{alice.url}/tx", body).json()["txHash"]
    assert get_anew(f"{alice.url}/tx/{tx_hash}", wait=60).json()["reference"] == "invoice 4711"


def test_payments_of_one_account_at_the_same_time_all_arrive(alice: User) -> None:
    before = balance_of(alice.url, STRANGER)
    env = alice.env | {"CAIRN_PASSWORD": PASSWORD}
    sends = [
        subprocess.Popen(
            command(["send", "alice", STRANGER, "1"]), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        for _ in range(3)
    ]
    assert [send.wait(PATIENCE_S) for send in sends] == [0, 0, 0]
    assert balance_of(alice.url, STRANGER) == before + 3


def test_too_little_money_says_how_much_is_there_and_how_much_is_needed(user: User) -> None:
    user.add_key("poor", bytes([9]) * 32)
    result = user.invoke("send", "poor", "dev0", "1.5coins", "--json", CAIRN_PASSWORD="not asked for")
    error = json.loads(result.stderr)
    assert (result.exit_code, error["exitCode"], error["code"]) == (1, 1, "INSUFFICIENT_FUNDS")
    assert "has 0 wei but needs 1.500021 coins: 1.5 coins plus a fee of 21,000 gwei" in error["detail"]
    assert "`cairn send dev0 poor 2coins` gives it some" in error["detail"]


def test_a_signed_transfer_is_posted_by_curl(alice: User) -> None:
    signing = shlex.join(command(["sign", "alice", STRANGER, "5", "--json"]))
    script = f"{signing} | {need_program('curl')} -s -H 'content-type: application/json' -d @- {alice.url}/tx"
    env = alice.env | {"CAIRN_PASSWORD": PASSWORD}
    answer = json.loads(subprocess.check_output(["sh", "-c", script], env=env, text=True, timeout=PATIENCE_S))
    assert answer["status"] == "pending"
    shown = alice.invoke("tx", answer["txHash"], "--wait", str(PATIENCE_S))
    assert shown.exit_code == 0
    # Whatever somebody calls its key, a dev account keeps its name.
    assert f"from         {ALICE} (dev5)" in shown.stdout
    assert "amount       5 wei" in shown.stdout


def test_signing_needs_no_node_when_all_is_given(alice: User) -> None:
    offline = ["--nonce", "7", "--gas-price", "2gwei", "--chain-id", "99"]
    body = alice.json(
        "sign", "alice", STRANGER, "1coin", *offline, CAIRN_NODE="http://127.0.0.1:1", CAIRN_PASSWORD=PASSWORD
    )
    fields = {"to": STRANGER, "value": 10**18, "nonce": 7, "gas": 21000, "gasPrice": 2 * 10**9, "chainId": 99}
    expected = Account.sign_transaction(fields, DEV_KEYS[5][1])
    assert body["signature"] == f"0x{expected.r:064x}{expected.s:064x}{expected.v - 35 - 2 * 99:02x}"
    assert body == {
        "from": ALICE.lower(),
        "to": STRANGER.lower(),
        "value": 10**18,
        "nonce": 7,
        "gas": 21000,
        "gasPrice": 2 * 10**9,
        "signature": body["signature"],
    }
    shown = alice.invoke("sign", "alice", STRANGER, "1coin", *offline, CAIRN_PASSWORD=PASSWORD).stdout
    assert f"transaction  0x{bytes(expected.hash).hex()}\n" in shown
    assert f"from         {ALICE} (dev5)\nto           {STRANGER}\n" in shown


def test_a_type_2_transfer_is_signed_and_sent(alice: User) -> None:
    offline = ["--nonce", "7", "--max-fee", "2gwei", "--tip", "3", "--chain-id", "99"]
    body = alice.json(
        "sign", "alice", STRANGER, "1coin", *offline, CAIRN_NODE="http://127.0.0.1:1", CAIRN_PASSWORD=PASSWORD
    )
    fields = {"to": STRANGER, "value": 10**18, "nonce": 7, "gas": 21000, "chainId": 99, "type": 2}
    caps = {"maxFeePerGas": 2 * 10**9, "maxPriorityFeePerGas": 3}
    expected = Account.sign_transaction({**fields, **caps}, DEV_KEYS[5][1])
    assert body["signature"] == f"0x{expected.r:064x}{expected.s:064x}{expected.v:02x}"
    assert body.items() >= caps.items()
    sent = alice.json("send", "alice", STRANGER, "5", "--yes", "--tip", "3", CAIRN_PASSWORD=PASSWORD)
    assert (sent["type"], sent["fee"]) == (2, 21_000 * (10**9 + 3))
    both = alice.invoke("send", "alice", STRANGER, "5", "--gas-price", "1gwei", "--tip", "3", CAIRN_PASSWORD=PASSWORD)
    assert both.exit_code != 0
    assert "--gas-price: give it, or --max-fee and --tip, not both" in both.stderr


def test_a_payment_not_confirmed_in_time_exits_with_its_hash(idle_user: User) -> None:
    result = idle_user.run("send", "dev1", "dev2", "1", "--timeout", "0.5", "--json")
    error = json.loads(result.stderr)
    assert (result.returncode, result.stdout) == (6, "")
    assert (error["exitCode"], error["code"]) == (6, "TIMED_OUT")
    assert idle_user.json("tx", error["txHash"])["status"] == "pending"
    assert f"`cairn tx {error['txHash']} --wait 60` waits longer" in error["detail"]


def test_a_payment_behind_missing_nonces_names_them(idle_user: User) -> None:
    """Waiting on would not help, so that is not what is advised."""
    sent = idle_user.invoke("send", "dev7", "dev2", "1", "--nonce", "4", "--no-wait")
    assert sent.stdout.splitlines()[2] == "status     pending (queued: waits for nonce 0)"
    result = idle_user.invoke("send", "dev7", "dev2", "2", "--nonce", "6", "--timeout", "0.2")
    assert (result.exit_code, result.stdout[:5]) == (6, "sent ")
    warning, unit, error = result.stderr.splitlines()
    assert unit.startswith("cairn: warning: an amount without a unit is in wei: this is 2 wei, and 1coin is ")
    assert warning.startswith("cairn: warning: nonces 0 to 3, 5 are missing before nonce 6: ")
    assert "is still pending after 0.2 s: nonces 0 to 3, 5 are missing, and no block can take it" in error
    assert "waits longer" not in error
    listed = idle_user.invoke("mempool", "--from", "dev7").stdout.splitlines()
    assert [line.split()[4:6] for line in listed[1:]] == [["4", "pending"], ["6", "pending"]]
    assert all(" pending (queued: waits for nonce 0) " in line for line in listed[1:])
    [first, _] = idle_user.json("mempool", "--from", "dev7")
    assert (first["queued"], first["queuedReason"]) == (True, "waits for nonce 0")
    assert "status       pending (queued: waits for nonce 0)\n" in idle_user.invoke("tx", first["txHash"]).stdout


def test_ctrl_c_ends_the_wait_and_not_the_payment(idle_user: User) -> None:
    with idle_user.at_terminal("send", "dev3", "dev2", "1", "--yes") as terminal:
        terminal.expect("sent       ")
        terminal.expect("waiting for its block")
        terminal.press_ctrl_c()
        terminal.expect("cairn: no longer waiting; `cairn tx 0x")
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.text
    [pending] = idle_user.json("mempool", "--from", "dev3")
    assert f"`cairn tx {pending['txHash']}` shows its status" in terminal.text


def test_ctrl_c_at_a_question_sends_nothing(idle_user: User) -> None:
    with idle_user.at_terminal("send", "dev4", "dev2", "1") as terminal:
        terminal.expect("Send it? [y/N] ")
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.text
    assert idle_user.json("mempool", "--from", "dev4") == []


@pytest.mark.parametrize(
    ("args", "code", "advice"),
    [
        (["--nonce", "0", "--gas-price", "1.05gwei"], "REPLACEMENT_UNDERPRICED", "pay at least 10 % more"),
        (["--nonce", "500"], "NONCE_TOO_HIGH", "leave --nonce out"),
        (["--gas-price", "1"], "GAS_PRICE_TOO_LOW", "leave --gas-price or --max-fee out"),
        (["--max-fee", "1"], "GAS_PRICE_TOO_LOW", "leave --gas-price or --max-fee out"),
    ],
)
def test_a_refusal_says_what_to_do(idle_user: User, args: list[str], code: str, advice: str) -> None:
    idle_user.invoke("send", "dev6", "dev2", "1", "--no-wait", "--nonce", "0")
    result = idle_user.invoke("send", "dev6", "dev2", "2", *args, "--json")
    error = json.loads(result.stderr)
    assert (result.exit_code, error["code"]) == (1, code)
    assert advice in error["detail"]


def test_a_public_account_of_another_chain_is_warned_about(tmp_path: Path) -> None:
    home = tmp_path / "chain"
    rich = f"{ALICE}=1000coins"
    run_here(["init", str(home), "--alloc", rich, "--proposer", ALICE])
    with NodeProcess.start(["run", "--home", str(home), "--port", "0"]) as chain:
        chain.wait_ready()
        result = User(tmp_path, chain.url).run("send", "dev5", "dev0", "1coin")
    assert result.returncode == 0
    assert "the key of dev0" in result.stderr
    assert "is public, and this is not a dev chain" in result.stderr


def test_send_recognises_a_dev_chain_with_its_own_id_or_accounts(tmp_path: Path) -> None:
    words = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"
    first = "0x9858EfFD232B4033E47d90003D41EC34EcaEda94"
    with NodeProcess.start_dev("--chain-id", "77") as node:
        paid = User(tmp_path, node.url).invoke("send", "dev0", "dev1", "1coin", "--no-wait")
        assert (paid.exit_code, paid.stderr) == (0, "")
    with NodeProcess.start_dev("--mnemonic", words, "--accounts", "2") as node:
        refused = User(tmp_path, node.url).invoke("send", "dev0", "dev1", "1coin")
    assert refused.exit_code == 1
    assert f"; this chain has its own dev accounts (--mnemonic): its dev0 is {first}, and" in refused.stderr


def test_colour_is_for_terminals_that_want_it(alice: User) -> None:
    assert "\x1b" not in alice.run("account", "alice").stdout
    with alice.at_terminal("account", "alice") as coloured:
        assert coloured.wait() == 0
    with alice.at_terminal("account", "alice", NO_COLOR="1") as plain:
        assert plain.wait() == 0
    assert "\x1b[1m" in coloured.raw
    assert "\x1b[3" not in plain.raw
    assert coloured.text == plain.text


def test_the_environment_of_the_commands_does_not_stop_a_node(user: User) -> None:
    with NodeProcess.start(["dev", "--port", "0"], env={"CAIRN_NODE": user.url, "CAIRN_PASSWORD": "x"}) as other:
        other.wait_ready()
