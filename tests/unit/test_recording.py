"""The recording of README's two terminals: small, readable as it stands, and of the commands that README shows."""

import re
from xml.etree import ElementTree

from tests.support.pages import Page
from tools.recording import COLUMNS, PICTURE, Row, Window, arranged, render, rows_of, with_hash_of

TEXT = "{http://www.w3.org/2000/svg}text"


def test_the_picture_shows_the_commands_of_the_readme() -> None:
    assert PICTURE.stat().st_size < 16_000
    lines = [each.text or "" for each in ElementTree.fromstring(PICTURE.read_text()).iter(TEXT)]
    assert max(map(len, lines)) <= COLUMNS
    typed = "".join(lines)
    assert [each for each in lines if each.startswith("Terminal ")] == ["Terminal 1: the node", "Terminal 2: you"]
    assert any("block 1  1 transaction" in each for each in lines), "what the node tells of the payment"
    for step in Page("README.md").section("Try it").steps("curl "):
        assert re.sub(r"0x[0-9a-f]{64}", "", step.line) in re.sub(r"0x[0-9a-f]{64}", "", typed), "run `make recording`"


def test_lines_come_one_after_another_and_long_ones_are_broken() -> None:
    rows = rows_of([("first", "a\nb"), ("second", "x" * (COLUMNS + 1))])
    assert [row.text for row in rows] == ["$ first", "a", "b", "$ second", "x" * COLUMNS, "x"]
    assert [row.at_s for row in rows] == sorted(row.at_s for row in rows)


def test_what_a_node_prints_is_text_in_the_picture() -> None:
    drawn = render([Window("A & B", [Row(0, "<script>&", is_typed=False)])])
    assert [each.text for each in ElementTree.fromstring(drawn).iter(TEXT)] == ["A & B", "<script>&"]


def test_the_node_tells_of_a_payment_when_the_client_has_waited_for_it() -> None:
    session = [("curl pay", "pending"), ("curl wait", "confirmed"), ("curl account", "1")]
    node, client = arranged("Listening", ["block 1"], session)
    at = {row.text: row.at_s for row in (*node.rows, *client.rows)}
    shown = ("Listening", "$ curl pay", "$ curl wait", "block 1", "confirmed", "$ curl account")
    assert [at[text] for text in shown] == sorted(at[text] for text in shown)


def test_a_command_asks_for_the_transaction_that_was_made() -> None:
    made = "0x" + "ab" * 32
    answer = f'{{"txHash":"{made}"}}'
    assert with_hash_of(answer, f"curl /tx/0x{'12' * 32}?wait=5") == f"curl /tx/{made}?wait=5"
    assert with_hash_of("nothing", "curl /chain") == "curl /chain"
