// The history of an account: when its transactions were confirmed, and all of it as a file.

import { checksummed } from "./addresses.js";
import { plainAmount } from "./amounts.js";
import { listBlocks, listHistory, MOST_CALLS, rpc } from "./api.js";
import { h } from "./dom.js";
import { textOf } from "./references.js";
import { dateOf } from "./widgets.js";

/** @import { Confirmed } from "./api.js" */
/** @import { Live } from "./live.js" */

const PAGE = 1_000;
export const MOST_ROWS = 20_000;
const SAVED_MS = 60_000;

/**
 * When the blocks of these transactions were made, by height; a node may have removed some of them. Blocks that lie
 * close together are read as a list, others a hundred at a time.
 * @param {Confirmed[]} transactions
 * @param {Live} live
 * @param {AbortSignal} signal
 */
export async function blockTimes(transactions, live, signal) {
    const times = new Map(live.blocks.map((block) => [block.blockHeight, block.timestamp]));
    // One transaction of each block: to ask for it brings the block's time, and little else.
    const unknown = new Map(transactions.map((tx) => [tx.blockHeight, tx.txHash]));
    for (const height of times.keys()) unknown.delete(height);
    const heights = [...unknown.keys()].sort((one, other) => Number(other - one));
    const scattered = [];
    while (heights.length) {
        const [top] = heights;
        const others = heights.findIndex((height) => top - height >= BigInt(PAGE));
        const near = heights.splice(0, others < 0 ? heights.length : others);
        if (near.length <= MOST_CALLS) {
            scattered.push(...near);
            continue;
        }
        const lowest = near[near.length - 1];
        const { items } = await listBlocks({ after: top + 1n, limit: top - lowest + 1n }, signal);
        for (const block of items) times.set(block.blockHeight, block.timestamp);
    }
    const calls = scattered.map((height) => [unknown.get(height)]);
    const found = await rpc("eth_getTransactionByHash", calls, signal);
    for (const tx of found.filter((each) => each?.blockNumber)) times.set(BigInt(tx.blockNumber), BigInt(tx.blockTimestamp));
    return times;
}

const HEADINGS = ["time", "block", "transaction", "direction", "from", "to", "coins", "wei", "fee_wei", "nonce", "data", "reference"];

/** @type {(tx: Confirmed, address: string, time: bigint | undefined) => (bigint | string)[]} */
const row = (tx, address, time) => [
    time === undefined ? "" : dateOf(time).toISOString(),
    tx.blockHeight,
    tx.txHash,
    tx.from === tx.to ? "self" : tx.from === address ? "sent" : "received",
    checksummed(tx.from),
    checksummed(tx.to),
    plainAmount(tx.value),
    tx.value,
    tx.fee,
    tx.nonce,
    tx.data ?? "",
    tx.data === undefined ? "" : textCell(textOf(tx.data) ?? ""),
];

/** Where a spreadsheet would take what follows for a formula; some split lines at other signs than the comma. */
const FORMULA = /(^|[,;|"'])( *)([=+\-@＝＋－＠])/gu;

/**
 * A text of others as a field of CSV: in quotes, and with an apostrophe before what a spreadsheet would compute. The
 * field of the data has the bytes as they are. `csv_field` of the command line is the same: tests/vectors/csv_fields.json
 * has examples for both.
 * @param {string} text
 */
export const textCell = (text) => `"${text.replace(FORMULA, "$1$2'$3").replaceAll('"', '""')}"`;

/**
 * The history as CSV (RFC 4180), latest first. Only references need quotes: all else are numbers, hexadecimal, or words of ours.
 * @param {string} address
 * @param {Live} live
 * @param {AbortSignal} signal
 */
export async function historyFile(address, live, signal) {
    const lines = [HEADINGS.join(",")];
    /** @type {string | null} */
    let after = null;
    do {
        const page = await listHistory(address, { limit: PAGE, after }, signal);
        const times = await blockTimes(page.items, live, signal);
        for (const tx of page.items) lines.push(row(tx, address, times.get(tx.blockHeight)).join(","));
        ({ after } = page);
    } while (after && lines.length <= MOST_ROWS);
    return { text: `${lines.join("\r\n")}\r\n`, rows: lines.length - 1 };
}

/**
 * Let the browser save the text as a file.
 * @param {string} name
 * @param {string} text
 * @param {"text/csv" | "application/json"} type
 */
export function offerFile(name, text, type) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    h("a", { href: url, download: name }).click();
    // Browsers may read it only after this turn.
    setTimeout(() => URL.revokeObjectURL(url), SAVED_MS);
}
