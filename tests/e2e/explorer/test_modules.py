"""The page's own arithmetic and hashes, in a real browser, against public vectors and Python."""

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from playwright.sync_api import Browser

from cairn.client import Account
from cairn.domain.references import reference_of
from cairn.domain.types import intrinsic_gas
from tests.proofs.vectors import read_vectors
from tests.support.browser import Visitor
from tests.support.node_process import NodeProcess

VECTORS = Path(__file__).parents[2] / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text())


class Modules:
    """The modules of an open page."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor

    def run(self, module: str, body: str, argument: object) -> Any:
        """Run `body` with the module's exports as `it`, the module of bytes as `bytes`, the argument as `given`."""
        file = f"{module}.mjs" if module == "verify" else f"{module}.js"
        script = (
            f"async (given) => {{ const it = await import('/explorer/{file}');"
            f"const bytes = await import('/explorer/bytes.js'); {body} }}"
        )
        return self._visitor.run(script, argument)


@pytest.fixture(scope="module")
def modules(browser: Browser, process: NodeProcess) -> Iterator[Modules]:
    visitor = Visitor(browser, process.url)
    # Not a page of the explorer: that would make requests of its own, and tests count them.
    visitor.page.goto(f"{process.url}/openapi.json")
    yield Modules(visitor)
    visitor.close()


def test_keccak(modules: Modules) -> None:
    random = Random("keccak")
    # Around the sizes of one and two blocks, where padding goes wrong.
    messages = [random.randbytes(size) for size in [*range(0, 4), *range(134, 138), *range(270, 274), 1_000]]
    digests = modules.run("verify", "return given.map(it.keccak256)", [message.hex() for message in messages])
    assert digests == [keccak(message).hex() for message in messages]


def test_roots(modules: Modules) -> None:
    trees = load("merkle")
    body = "return Promise.all(given.map((leaves) => it.merkleRoot(leaves.map((leaf) => leaf.slice(2)))))"
    roots = modules.run("verify", body, [tree["leaves"] for tree in trees])
    assert ["0x" + root for root in roots] == [tree["root"] for tree in trees]


def test_verifier_decides_each_vector_in_a_browser_as_meant(modules: Modules) -> None:
    cases = read_vectors()
    body = """
    const answers = [];
    for (const { genesis, file, at, witness } of given) {
      const bytes = Uint8Array.from(genesis, (sign) => sign.charCodeAt(0));
      const options = { at: at ?? undefined, witness: witness ?? undefined };
      answers.push(await it.checkFile(bytes, file, options).then(() => true, (failure) => {
        if (!(failure instanceof it.NotProven)) throw failure;
        return false;
      }));
    }
    return answers;"""
    given = [
        {"genesis": case.genesis.decode("latin-1"), "file": case.file.decode("latin-1"), "at": case.at}
        | {"witness": case.witness}
        for case in cases
    ]
    said = modules.run("verify", body, given)
    assert [case.name for case, is_valid in zip(cases, said, strict=True) if is_valid != case.valid] == []


def test_the_gas_of_data(modules: Modules) -> None:
    random = Random("data")
    fields = [b"", b"\0", bytes(256), b"\xff" * 256, *(random.randbytes(size) for size in range(1, 256, 17))]
    body = "return given.map((hex) => Number(it.intrinsicGas(it.dataOf({ data: hex }))))"
    gas = modules.run("references", body, ["0x" + data.hex() for data in fields])
    assert gas == [intrinsic_gas(data) for data in fields]
    assert modules.run("references", "return Number(it.intrinsicGas(it.dataOf({})))", None) == 21_000


def test_data_is_text_where_the_node_says_so_too(modules: Modules) -> None:
    """Every character of the Basic Multilingual Plane, and bytes that are no text."""
    assigned = [chr(code) for code in range(0x10000) if unicodedata.category(chr(code)) not in ("Cs", "Cn")]
    fields = [*(character.encode() for character in assigned), b"", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"a\xe2\x82"]
    body = "return given.map(it.textOf)"
    shown = modules.run("references", body, ["0x" + data.hex() for data in fields])
    assert shown == [reference_of(data) for data in fields]
    assert modules.run("references", body, ["", "0x1", "4711", "0x\u202e", None]) == [None] * 5


def test_a_text_of_others_is_no_formula_in_a_spreadsheet(modules: Modules) -> None:
    examples = load("csv_fields")
    texts = [text for text, _ in examples]
    assert modules.run("history", "return given.map(it.textCell)", texts) == [field for _, field in examples]


def test_addresses(modules: Modules) -> None:
    random = Random("addresses")
    addresses = ["0x" + random.randbytes(20).hex() for _ in range(50)]
    assert modules.run("addresses", "return given.map(it.checksummed)", addresses) == [
        to_checksum_address(address) for address in addresses
    ]
    good = to_checksum_address(addresses[0])
    wrong = good[:2] + good[2:].swapcase()
    body = "return given.map((text) => it.addressProblem(text) === null)"
    given = [good, good.lower(), "0x" + good[2:].upper(), wrong, good[:-1], good + "0", "", "hello"]
    assert modules.run("addresses", body, given) == [True, True, True, False, False, False, False, False]


def test_integers_of_any_size_stay_exact(modules: Modules) -> None:
    numbers = [0, 1, 2**53 - 1, 2**53, 2**53 + 1, 2**64 + 1, 2**256 - 1, -(2**70)]
    text = json.dumps({"list": numbers, "text": '12345678901234567890, "9007199254740993"', "half": 0.5, "none": None})
    read = modules.run(
        "exact",
        "const read = it.parseExact(given);"
        "const areExact = read.list.every((each) => typeof each === 'bigint');"
        "return [read.list.map(String), areExact, read.text, read.half, read.none]",
        text,
    )
    assert read == [[str(number) for number in numbers], True, json.loads(text)["text"], 0.5, None]


@pytest.mark.parametrize(
    ("text", "unit", "wei"),
    [
        ("1", "coins", 10**18),
        ("0.000000000000000001", "coins", 1),
        (".5", "coins", 5 * 10**17),
        ("1.", "coins", 10**18),
        ("1.5", "gwei", 1_500_000_000),
        ("9007199254740993", "wei", 2**53 + 1),
        (str(2**256 - 1), "wei", 2**256 - 1),
        ("1.000", "wei", 1),
        (str(2**256), "wei", None),
        ("0.0000000000000000001", "coins", None),
        ("1.5", "wei", None),
        ("1,5", "coins", None),
        ("-1", "coins", None),
        ("1e3", "coins", None),
        ("", "coins", None),
        (".", "coins", None),
    ],
)  # fmt: skip
def test_amounts_that_people_type(modules: Modules, text: str, unit: str, wei: int | None) -> None:
    body = "try { return it.parseAmount(given[0], given[1]).toString() } catch (failure) { return failure.name }"
    assert modules.run("amounts", body, [text, unit]) == ("RangeError" if wei is None else str(wei))


def test_amounts_that_people_read(modules: Modules) -> None:
    amounts = [0, 1, 10**15, 10**18, 10_000 * 10**18 + 1, 21_000 * 10**9]
    body = "return given.map((wei) => it.describeAmount(BigInt(wei)))"
    shown = modules.run("amounts", body, [str(each) for each in amounts])
    assert shown == [
        "0 coins",
        "0.000000000000000001 coins",
        "0.001 coins",
        "1 coin",
        "10,000.000000000000000001 coins",
        "0.000021 coins",
    ]


@pytest.mark.parametrize(
    ("wei", "shown", "rest", "brief"),
    [
        (0, "0", "", None),
        (10**18, "1", "", None),
        (9_999_999_979 * 10**12, "9,999.99", "9979", None),
        (123_456_789 * 10**18 + 5 * 10**17, "123,456,789", ".5", None),
        (10**18 // 8 + 1, "0.125", "000000000000001", None),
        (10**18 // 3, "0.333333", "333333333333", None),
        (21_816 * 10**9, "0.000021816", "", None),
        (1, "", "0.000000000000000001", "<0.000000001"),
        (2**256 - 1, "", f"{(2**256 - 1) // 10**18:,}.{(2**256 - 1) % 10**18:018}", "1.15792e59"),
    ],
)
def test_about_six_digits_of_an_amount_are_shown_and_none_is_lost(
    modules: Modules, wei: int, shown: str, rest: str, brief: str | None
) -> None:
    cut = modules.run("amounts", "return it.cutAmount(BigInt(given), 'coins')", str(wei))
    assert cut == {"shown": shown, "rest": rest, "brief": brief}


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        pytest.param([(100, 1), (101, 1), (102, 2), (103, 1)], (1.0, 3, 0), id="one each second"),
        pytest.param([(100, 1), (101, 1), (102, 1), (149, 1), (150, 1), (190, 1)], (1.0, 3, 2), id="pauses"),
        pytest.param([(100, 1), (101, 0), (102, 0), (103, 1), (104, 1), (105, 1)], (1.0, 3, 0), id="empty blocks"),
        pytest.param([(100, 1), (100, 1), (100, 1), (101, 1), (101, 1), (101, 1)], (0.2, 5, 0), id="five a second"),
        pytest.param([(100, 1), (112, 1), (124, 1), (137, 1)], (12.0, 3, 0), id="slow"),
        pytest.param([(100, 1), (101, 1), (103, 1), (104, 1), (107, 1), (108, 1)], (1.0, 5, 0), id="short rests"),
        pytest.param([(100, 1), (112, 1), (158, 1), (220, 1)], None, id="paid by hand, now and then"),
        pytest.param([(100, 1)], None, id="one block"),
        pytest.param([], None, id="none"),
    ],
)
def test_block_time_counts_blocks_that_had_something_to_include(
    modules: Modules, blocks: list[tuple[int, int]], expected: tuple[float, int, int] | None
) -> None:
    body = (
        "const time = it.measuredBlockTime(given.map(([timestamp, transactionCount]) =>"
        " ({ timestamp: BigInt(timestamp), transactionCount: BigInt(transactionCount) })));"
        "return time && [time.seconds, time.intervals, time.pauses]"
    )
    shown = modules.run("pace", body, blocks[::-1])
    assert shown == (None if expected is None else [pytest.approx(expected[0]), *expected[1:]])


HISTORY = """
const [step, count] = given;
const txHash = (height) => "0x" + BigInt(height).toString(16).padStart(64, "0");
const time = (height) => 1_700_000_000 + Number(height);
const [from, to] = ["1", "2"].map((digit) => "0x" + digit.repeat(40));
const transfer = { from, to, value: 1, nonce: 0, gas: 21000, gasPrice: 1, fee: 1 };
const heights = Array.from({ length: count }, (_, index) => (count - index) * step);
const answers = {
  "/account": (query) => {
    const first = Number(query.get("after") ?? 0);
    const last = Math.min(count, first + Number(query.get("limit")));
    const link = last < count ? `</account/x/txs?after=${last}>; rel="next"` : "";
    const listed = (blockHeight) => ({ ...transfer, txHash: txHash(blockHeight), blockHeight });
    return [heights.slice(first, last).map(listed), { link }];
  },
  "/blocks": (query) => {
    const top = Number(query.get("after")) - 1;
    const items = Array.from({ length: Number(query.get("limit")) }, (_, index) => top - index);
    return [items.map((blockHeight) => ({ blockHeight, timestamp: time(blockHeight) })), {}];
  },
  "/rpc": (_, body) => {
    const items = JSON.parse(body).map(({ id, params: [hash] }) => {
      const blockTimestamp = "0x" + time(BigInt(hash)).toString(16);
      return { id, result: { blockNumber: "0x" + BigInt(hash).toString(16), blockTimestamp } };
    });
    return [items, {}];
  },
};
const real = window.fetch;
let asked = 0;
window.fetch = async (path, { body } = {}) => {
  const url = new URL(path, location.origin);
  asked += 1;
  const [items, headers] = answers["/" + url.pathname.split("/")[1]](url.searchParams, body);
  return new Response(JSON.stringify(items), { headers: { "content-type": "application/json", ...headers } });
};
try {
  const { text, rows } = await it.historyFile(from, { blocks: [] }, new AbortController().signal);
  const shown = text.trim().split("\\r\\n").slice(1).map((line) => line.split(","));
  const areRight = shown.every(([made, height]) => Date.parse(made) === 1000 * time(height));
  return [rows, areRight, asked];
} finally {
  window.fetch = real;
}"""


@pytest.mark.parametrize(
    ("step", "count", "requests"),
    [
        # Pages of the history, and lists of blocks.
        pytest.param(1, 2_500, 3 + 3, id="in every block"),
        # Pages of the history, and calls by the hundred.
        pytest.param(5_000, 1_000, 1 + 10, id="far apart"),
        pytest.param(400, 2_000, 2 + 20, id="a few within reach of each other"),
        pytest.param(7, 0, 1, id="none"),
    ],
)
def test_a_history_is_saved_with_few_requests(modules: Modules, step: int, count: int, requests: int) -> None:
    assert modules.run("history", HISTORY, [step, count]) == [count, True, requests]


def test_calls_that_were_too_many_are_made_again(modules: Modules) -> None:
    body = """
    const real = window.fetch;
    const batches = [];
    window.fetch = async (path, { body }) => {
      const calls = JSON.parse(body);
      batches.push(calls.map(({ id }) => id));
      const tooMany = { code: -32005, message: "limit exceeded" };
      const answers = calls.map(({ id, params: [wanted] }, index) =>
        index < 2 ? { id, result: wanted || null } : { id, error: tooMany },
      );
      return new Response(JSON.stringify(answers), { headers: { "content-type": "application/json" } });
    };
    try {
      return [await it.rpc("eth_any", given.map((each) => [each])), batches];
    } finally {
      window.fetch = real;
    }"""
    wanted = ["a", "", "c", "d", "e"]
    assert modules.run("api", body, wanted) == [["a", None, "c", "d", "e"], [[0, 1, 2, 3, 4], [2, 3, 4], [4]]]


WALK = """
const [counts, size] = given;
const json = { headers: { "content-type": "application/json" } };
const real = window.fetch;
window.fetch = async (path, { body } = {}) => {
  const { searchParams } = new URL(path, location.origin);
  if (body) {
    const found = JSON.parse(body).map(({ id, params: [block, index] }) =>
      ({ id, result: { hash: `${block}-${Number(index)}`, value: "0x0", blockNumber: "0x0", blockTimestamp: "0x0" } }));
    return new Response(JSON.stringify(found), json);
  }
  const [after, limit] = ["after", "limit"].map((name) => Number(searchParams.get(name)));
  const blocks = counts.map((transactionCount, blockHeight) =>
    ({ blockHeight, transactionCount, hash: String(blockHeight) }));
  return new Response(JSON.stringify(blocks.slice(Math.max(0, after - limit), after).reverse()), json);
};
const { signal } = new AbortController();
const heights = { from: 0n, to: BigInt(counts.length - 1) };
const [down, up] = [[], []];
const shown = ({ items }) => items.map(({ txHash }) => txHash);
try {
  let page = { after: null };
  do {
    page = await it.walkDown(heights, it.cursorOf(page.after), size, signal);
    down.push(shown(page));
  } while (page.after !== null && down.length < 4);
  while (page.before !== null) {
    page = await it.walkUp(heights, it.cursorOf(page.before), size, signal);
    up.unshift(shown(page));
  }
  const oldest = await it.walkUp(heights, it.cursorOf(it.oldestCursor(0n)), size, signal);
  return [down, up, shown(oldest)];
} finally {
  window.fetch = real;
}"""


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([0, 3, 0, 1, 2, 0, 4, 1, 0], id="few in a block"),
        pytest.param([0, *[10_000] * 300], id="ten thousand in a block"),
    ],
)
def test_pages_of_transactions_go_down_and_up_block_by_block(modules: Modules, counts: list[int]) -> None:
    size, pages = 3, 4
    down, up, oldest = modules.run("walk", WALK, [counts, size])
    newest_first = [
        f"{height}-{index}" for height in reversed(range(len(counts))) for index in range(counts[height])[::-1]
    ]
    assert down == [newest_first[first : first + size] for first in range(0, pages * size, size)]
    assert up == down[:-1]
    assert oldest == newest_first[-size:]


STREAMED_GENESIS = """
const [prefix, accounts] = given;
const real = window.fetch;
let [asked, sent] = [0, 0];
window.fetch = async () => {
  asked += 1;
  const encoder = new TextEncoder();
  const pieces = [prefix, ...accounts.map((address, index) => `${index ? "," : ""}"${address}":"${index + 1}"`), "}}"];
  const pull = (controller) => {
    const text = pieces.splice(0, 500).join("");
    sent += text.length;
    if (text) controller.enqueue(encoder.encode(text));
    else controller.close();
  };
  return new Response(new ReadableStream({ pull }), { headers: { "content-type": "application/json" } });
};
const { signal } = new AbortController();
"""
GENESIS_START = '{"chainId":1,"alloc":{'


@pytest.mark.parametrize(("count", "shown"), [(0, 0), (1, 1), (12_000, 12_000), (30_000, 0)])
def test_the_accounts_of_a_genesis_are_read_unless_it_is_very_long(modules: Modules, count: int, shown: int) -> None:
    body = "try { return [await it.genesisAccounts(signal), sent] } finally { window.fetch = real }"
    accounts = [f"0x{number:040x}" for number in range(count)]
    listed, sent = modules.run("genesis", STREAMED_GENESIS + body, [GENESIS_START, accounts])
    # The largest balance is first.
    assert listed == accounts[:shown][::-1]
    assert sent < 1_100_000


@pytest.mark.parametrize(("height", "asked"), [(0, 1), (1, 0)])
def test_a_chain_of_ones_own_waits_for_no_genesis_and_with_blocks_reads_none(
    modules: Modules, height: int, asked: int
) -> None:
    body = """
    try {
      const live = { chain: { head: { blockHeight: BigInt(given[2]) }, supply: 1n } };
      const place = it.ownChain({ live, signal });
      return [place && place.querySelector("h2").textContent, asked];
    } finally {
      window.fetch = real;
    }"""
    words = "Your chain is ready" if asked else None
    assert modules.run("genesis", STREAMED_GENESIS + body, [GENESIS_START, [], height]) == [words, asked]


QR_SIZE = 29
QR_FORMAT_L_MASK_0 = [1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0]


def is_qr_function(row: int, column: int) -> bool:
    """Whether the module of a version 3 code belongs to a pattern or to the format, rather than to the data."""
    last = QR_SIZE - 1
    in_finder = (row <= 8 and column <= 8) or (row <= 8 and column >= last - 7) or (row >= last - 7 and column <= 8)
    in_alignment = abs(row - 22) <= 2 and abs(column - 22) <= 2
    return in_finder or in_alignment or 6 in (row, column)


def qr_codewords(modules: list[list[bool]]) -> list[int]:
    """The bytes of a code of mask 0, in their order."""
    bits = []
    columns = [column for column in range(QR_SIZE - 1, -1, -1) if column != 6]
    for pair in range(0, len(columns), 2):
        rows = range(QR_SIZE) if pair % 4 else range(QR_SIZE - 1, -1, -1)
        for row in rows:
            for column in columns[pair : pair + 2]:
                if not is_qr_function(row, column):
                    bits.append(modules[row][column] ^ ((row + column) % 2 == 0))
    return [int("".join(str(int(bit)) for bit in bits[at : at + 8]), 2) for at in range(0, 70 * 8, 8)]


def gf_product(one: int, other: int) -> int:
    result = 0
    while other:
        if other & 1:
            result ^= one
        one = (one << 1) ^ (0x11D if one & 0x80 else 0)
        other >>= 1
    return result


def test_qr_codes_hold_what_they_show(modules: Modules) -> None:
    """Read back step by step, as a scanner does: format, data, and no error in the sense of Reed and Solomon."""
    texts = [Account.dev(0).address, "0x" + "0" * 40, "é" * 26]
    for text, code in zip(texts, modules.run("qr", "return given.map(it.qrModules)", texts), strict=True):
        assert [len(row) for row in code] == [QR_SIZE] * QR_SIZE
        beside = [code[8][column] for column in (0, 1, 2, 3, 4, 5, 7, 8)] + [
            code[row][8] for row in (7, 5, 4, 3, 2, 1, 0)
        ]
        below = [code[row][8] for row in range(28, 21, -1)] + [code[8][column] for column in range(21, 29)]
        assert beside == below == [bool(bit) for bit in QR_FORMAT_L_MASK_0]
        assert [code[6][column] for column in range(8, 21)] == [column % 2 == 0 for column in range(8, 21)]
        codewords = qr_codewords(code)
        root = 1
        for _ in range(15):
            syndrome = 0
            for byte in codewords:
                syndrome = gf_product(syndrome, root) ^ byte
            assert syndrome == 0
            root = gf_product(root, 2)
        content = bytes(codewords[:55]).hex()
        size = int(content[1:3], 16)
        assert (content[0], bytes.fromhex(content[3 : 3 + 2 * size]).decode()) == ("4", text)


READINGS = """
const real = [window.WebSocket, window.fetch, window.setInterval];
const sockets = [];
window.WebSocket = class extends EventTarget {
  static OPEN = 1;
  readyState = 1;
  constructor() {
    super();
    sockets.push(this);
  }
  send() {}
};
window.setInterval = () => 0;
let head = 2;
let held = null;
const header = (height) => ({ blockHeight: height, hash: "0x" + height, timestamp: height, transactionCount: 0 });
window.fetch = async (path) => {
  const { pathname, searchParams } = new URL(path, location.origin);
  const heights = Array.from({ length: head + 1 }, (_, index) => head - index);
  const blocks = heights.slice(0, Number(searchParams.get("limit"))).map(header);
  if (held && pathname === "/blocks") await new Promise((resolve) => held.push(resolve));
  const answer = pathname === "/chain" ? { engine: "cometbft", head: header(head) } : blocks;
  return new Response(JSON.stringify(answer), { headers: { "content-type": "application/json" } });
};
const until = async (isDone) => {
  while (!isDone()) await new Promise((resolve) => setTimeout(resolve, 10));
};
try {
  const live = new it.Live();
  live.start();
  const [socket] = sockets;
  socket.dispatchEvent(new Event("open"));
  await until(() => live.connection === "live");
  [head, held] = [4, []];
  const event = '{"event":"newBlock","blockHeight":3,"hash":"0x3"}';
  socket.dispatchEvent(new MessageEvent("message", { data: event }));
  socket.dispatchEvent(new Event("open"));
  await until(() => held.length === 2);
  const both = held;
  held = null;
  both.forEach((resolve) => resolve());
  await new Promise((resolve) => setTimeout(resolve, 200));
  return live.blocks.map(({ blockHeight }) => Number(blockHeight));
} finally {
  [window.WebSocket, window.fetch, window.setInterval] = real;
}"""


def test_two_readings_at_once_show_each_block_once(modules: Modules) -> None:
    """A page that has just come back to its node may hear of a block while it reads what it has missed."""
    assert modules.run("live", READINGS, None) == [4, 3, 2, 1, 0]
