// The history of an account: when its transactions were confirmed, and all of it as a file.

import { checksummed } from "./addresses.js";
import { formatAmount } from "./amounts.js";
import { listBlocks, listHistory } from "./api.js";
import { h } from "./dom.js";
import { dateOf } from "./widgets.js";

/** @import { Confirmed } from "./api.js" */
/** @import { Live } from "./live.js" */

const PAGE = 1_000;
export const MOST_ROWS = 20_000;
const SAVED_MS = 60_000;

/**
 * When the blocks of these transactions were made, by height; a node may have removed some of them.
 * @param {Confirmed[]} transactions
 * @param {Live} live
 * @param {AbortSignal} signal
 */
export async function blockTimes(transactions, live, signal) {
    const times = new Map(live.blocks.map((block) => [block.blockHeight, block.timestamp]));
    const unknown = new Set(transactions.map((tx) => tx.blockHeight).filter((height) => !times.has(height)));
    const heights = [...unknown].sort((one, other) => Number(other - one));
    while (heights.length) {
        const [top] = heights;
        const near = heights.filter((height) => top - height < BigInt(PAGE));
        const lowest = near[near.length - 1];
        const { items } = await listBlocks({ after: top + 1n, limit: top - lowest + 1n }, signal);
        for (const block of items) times.set(block.blockHeight, block.timestamp);
        heights.splice(0, near.length);
    }
    return times;
}

const HEADINGS = ["time", "block", "transaction", "direction", "from", "to", "coins", "wei", "fee_wei", "nonce"];

/** @type {(tx: Confirmed, address: string, time: bigint | undefined) => (bigint | string)[]} */
const row = (tx, address, time) => [
    time === undefined ? "" : dateOf(time).toISOString(),
    tx.blockHeight,
    tx.txHash,
    tx.from === tx.to ? "self" : tx.from === address ? "sent" : "received",
    checksummed(tx.from),
    checksummed(tx.to),
    formatAmount(tx.value, "coins").replaceAll(",", ""),
    tx.value,
    tx.fee,
    tx.nonce,
];

/**
 * The history as CSV (RFC 4180), latest first. No field needs quotes: all are numbers, hexadecimal, or words of ours.
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
 */
export function offerFile(name, text) {
    const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    h("a", { href: url, download: name }).click();
    // Browsers may read it only after this turn.
    setTimeout(() => URL.revokeObjectURL(url), SAVED_MS);
}
