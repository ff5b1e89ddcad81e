// What is in blocks beyond their headers: the transactions themselves, and what they add up to.

import { rpc } from "./api.js";
import { dataOf, intrinsicGas } from "./references.js";

/** @import { Header } from "./api.js" */

/** Larger blocks are not added up: their transactions would be megabytes. */
export const MOST_ADDED_UP = 1_000;
/** What one request may bring in all. */
const MOST_AT_ONCE = 2_000;
const REMEMBERED = 500;

/**
 * @typedef {object} Mined A transaction of a block.
 * @property {string} txHash
 * @property {string} from
 * @property {string} to
 * @property {bigint} value
 * @property {string} [data]
 * @property {bigint} blockHeight
 * @property {bigint} timestamp
 */
/** @typedef {[hash: string, index: string]} Place */
/** @typedef {{ value: bigint, fees: bigint }} Totals */
/** @typedef {Pick<Header, "hash" | "transactionCount" | "gasUsed">} Counted */

const NOTHING = { value: 0n, fees: 0n };
/**
 * By the block's hash.
 * @type {Map<string, Totals>}
 */
const remembered = new Map();

/**
 * What the block's transactions add up to, as far as it is known.
 * @param {Counted} block
 * @returns {Totals | null}
 */
export const knownTotals = ({ hash, transactionCount }) =>
    transactionCount === 0n ? NOTHING : (remembered.get(hash) ?? null);

/** @param {{ hash: string, transactions: { value: string, gasPrice: string, input: string }[] } | null} block */
function addUp(block) {
    if (!block) return;
    const totals = { ...NOTHING };
    for (const { value, gasPrice, input } of block.transactions) {
        totals.value += BigInt(value);
        totals.fees += intrinsicGas(dataOf({ data: input })) * BigInt(gasPrice);
    }
    if (remembered.size >= REMEMBERED) remembered.clear();
    remembered.set(block.hash, totals);
}

/**
 * Add up these blocks, except those that are too large, and call `onKnown` whenever more is known.
 * @param {Counted[]} blocks
 * @param {() => void} onKnown
 * @param {AbortSignal} signal
 */
export async function addUpBlocks(blocks, onKnown, signal) {
    const unknown = blocks.filter((block) => !knownTotals(block) && block.transactionCount <= MOST_ADDED_UP);
    while (unknown.length) {
        const batch = [];
        let size = 0;
        while (unknown.length && (!size || size + Number(unknown[0].transactionCount) <= MOST_AT_ONCE)) {
            size += Number(unknown[0].transactionCount);
            batch.push(...unknown.splice(0, 1));
        }
        const calls = batch.map((block) => [block.hash, true]);
        for (const block of await rpc("eth_getBlockByHash", calls, signal)) addUp(block);
        onKnown();
    }
}

/**
 * The newest transactions of these blocks, which are newest first.
 * @param {Header[]} blocks
 * @param {number} count
 * @param {AbortSignal} signal
 * @returns {Promise<Mined[]>}
 */
export async function newestTransactions(blocks, count, signal) {
    /** @type {Place[]} */
    const places = [];
    for (const { hash, transactionCount } of blocks) {
        for (let index = Number(transactionCount) - 1; index >= 0 && places.length < count; index -= 1) {
            places.push(placeOf(hash, index));
        }
    }
    return transactionsAt(places, signal);
}

/** @type {(hash: string, index: number) => Place} */
export const placeOf = (hash, index) => [hash, `0x${index.toString(16)}`];

/**
 * The transactions at these places of blocks, as far as they are still there.
 * @param {Place[]} places
 * @param {AbortSignal} signal
 * @returns {Promise<Mined[]>}
 */
export async function transactionsAt(places, signal) {
    const found = await rpc("eth_getTransactionByBlockHashAndIndex", places, signal);
    return found.filter(Boolean).map((tx) => ({
        txHash: tx.hash,
        from: tx.from,
        to: tx.to,
        value: BigInt(tx.value),
        data: tx.input === "0x" ? undefined : tx.input,
        blockHeight: BigInt(tx.blockNumber),
        timestamp: BigInt(tx.blockTimestamp),
    }));
}
