// All transactions of the chain, newest first, in pages. No interface lists them, so the page reads the headers of blocks,
// skips those that are empty, and asks for the transactions that it shows.

import { listBlocks } from "./api.js";
import { placeOf, transactionsAt } from "./contents.js";

/** @import { Header } from "./api.js" */
/** @import { Mined, Place } from "./contents.js" */

/** Headers in one request, and requests for one page. */
const CHUNK = 200n;
const MOST_CHUNKS = 5;

/** @typedef {{ height: bigint, index: bigint }} Cursor A transaction, counted from 0 in its block. */
/** @typedef {{ place: Place, cursor: Cursor }} Found */
/** @typedef {{ from: bigint, to: bigint }} Heights The lowest and the highest. */
/** @typedef {{ items: Mined[], after: string | null, before: string | null, searched: Heights }} WalkedPage */

const ANY = 2n ** 32n;

/**
 * @param {string | null} text As "7-0".
 * @returns {Cursor | null}
 */
export function cursorOf(text) {
    const match = /^(\d{1,18})-(\d{1,10})$/.exec(text ?? "");
    return match && { height: BigInt(match[1]), index: BigInt(match[2]) };
}

/** @param {Cursor} cursor */
const textOf = ({ height, index }) => `${height}-${index}`;

/**
 * What stands before the first transaction of that height: the oldest page ends there.
 * @param {bigint} height
 */
export const oldestCursor = (height) => textOf(height > 0n ? { height: height - 1n, index: ANY - 1n } : { height, index: 0n });

/** @type {(one: bigint, other: bigint) => bigint} */
const lower = (one, other) => (one < other ? one : other);

/** @type {(block: Header, index: bigint) => Found} */
const foundAt = ({ hash, blockHeight }, index) => ({
    place: placeOf(hash, Number(index)),
    cursor: { height: blockHeight, index },
});

/**
 * The transactions of these blocks that are older than `start`, newest first. One by one: the blocks may hold
 * millions, and a page shows a few.
 * @param {Cursor} start
 * @param {Header[]} blocks Newest first, none newer than that of `start`.
 */
function* olderThan(start, blocks) {
    for (const block of blocks) {
        const count = block.transactionCount;
        const end = block.blockHeight === start.height ? lower(start.index, count) : count;
        for (let index = end - 1n; index >= 0n; index -= 1n) yield foundAt(block, index);
    }
}

/**
 * The transactions of these blocks that are newer than `start`, oldest first.
 * @param {Cursor} start
 * @param {Header[]} blocks Newest first, none older than that of `start`.
 */
function* newerThan(start, blocks) {
    for (const block of [...blocks].reverse()) {
        const first = block.blockHeight === start.height ? start.index + 1n : 0n;
        for (let index = first; index < block.transactionCount; index += 1n) yield foundAt(block, index);
    }
}

/**
 * Add to those that were found until there is one more than a page shows.
 * @param {Found[]} found
 * @param {Iterable<Found>} more
 * @param {number} count
 */
function addUntilMore(found, more, count) {
    for (const each of more) {
        found.push(each);
        if (found.length > count) return;
    }
}

/**
 * Headers, newest first, from `top` down to `bottom`, at most so many.
 * @param {bigint} top
 * @param {bigint} bottom
 * @param {AbortSignal} signal
 */
async function headers(top, bottom, signal) {
    const { items } = await listBlocks({ after: top + 1n, limit: lower(CHUNK, top - bottom + 1n) }, signal);
    return items;
}

/**
 * The page of transactions that are older than `after`.
 * @param {Heights} heights
 * @param {Cursor | null} after
 * @param {number} count
 * @param {AbortSignal} signal
 * @returns {Promise<WalkedPage>}
 */
export async function walkDown({ from, to }, after, count, signal) {
    const start = after ?? { height: to, index: ANY };
    const top = lower(to, start.height);
    let next = top;
    /** @type {Found[]} */
    const found = [];
    for (let chunk = 0; chunk < MOST_CHUNKS && next >= from && found.length <= count; chunk += 1) {
        const blocks = await headers(next, from, signal);
        if (blocks.length === 0) break;
        addUntilMore(found, olderThan(start, blocks), count);
        next = blocks[blocks.length - 1].blockHeight - 1n;
    }
    const shown = found.slice(0, count);
    const last = found.length > count ? shown[shown.length - 1].cursor : { height: next, index: ANY };
    const isMore = found.length > count || next >= from;
    return {
        items: await transactionsAt(shown.map(({ place }) => place), signal),
        after: isMore ? textOf(last) : null,
        before: after && textOf(shown[0]?.cursor ?? after),
        searched: { from: found.length > count ? last.height : next + 1n, to: top },
    };
}

/**
 * The page of transactions that are newer than `before`, and nearest to it.
 * @param {Heights} heights
 * @param {Cursor} before
 * @param {number} count
 * @param {AbortSignal} signal
 * @returns {Promise<WalkedPage>}
 */
export async function walkUp({ from, to }, before, count, signal) {
    const bottom = before.height > from ? before.height : from;
    let next = bottom;
    /** @type {Found[]} */
    const found = [];
    for (let chunk = 0; chunk < MOST_CHUNKS && next <= to && found.length <= count; chunk += 1) {
        const blocks = await headers(lower(to, next + CHUNK - 1n), next, signal);
        addUntilMore(found, newerThan(before, blocks), count);
        next += CHUNK;
    }
    const shown = found.slice(0, count).reverse();
    const first = found.length > count ? shown[0].cursor : { height: next, index: 0n };
    const isMore = found.length > count || next <= to;
    const isLess = before.height > from || (before.height === from && before.index > 0n);
    return {
        items: await transactionsAt(shown.map(({ place }) => place), signal),
        after: isLess && shown.length > 0 ? textOf(shown[shown.length - 1].cursor) : null,
        before: isMore ? textOf(first) : null,
        searched: { from: bottom, to: lower(to, found.length > count ? first.height : next - 1n) },
    };
}
