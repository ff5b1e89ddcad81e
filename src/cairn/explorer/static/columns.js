// Columns of tables that need more than the list: the balances of accounts, and why transactions are queued.

import { rpc } from "./api.js";
import { grouped } from "./amounts.js";
import { fill, h } from "./dom.js";
import { badge, bareAmount } from "./widgets.js";

/** @import { MempoolItem } from "./api.js" */
/** @import { Column } from "./widgets.js" */

/**
 * By address; an account whose balance could not be read is not there.
 * @typedef {Map<string, bigint>} Balances
 */

/**
 * Read these accounts; one that cannot be read keeps what is there.
 * @param {Balances} balances
 * @param {string[]} addresses
 * @param {AbortSignal} signal
 */
export async function readBalances(balances, addresses, signal) {
    const calls = addresses.map((address) => [address, "latest"]);
    const results = await rpc("eth_getBalance", calls, signal);
    results.forEach((result, index) => {
        if (result !== null) balances.set(addresses[index], BigInt(result));
    });
}

/** @param {bigint | undefined} balance */
const shown = (balance) => (balance === undefined ? h("span", { class: "unit" }, "not known") : bareAmount(balance));

/**
 * The column of a table of addresses.
 * @param {Balances} balances
 * @returns {Column<string>}
 */
export const balanceColumn = (balances) => [
    "Balance (coins)",
    (address) => h("span", { "data-balance": address }, shown(balances.get(address))),
    "end",
];

/**
 * Show the balances in the cells of that column. Rows stay, so that a button keeps the focus while blocks come.
 * @param {HTMLElement} place
 * @param {Balances} balances
 */
export function renewBalances(place, balances) {
    for (const cell of place.querySelectorAll("[data-balance]")) {
        fill(cell, shown(balances.get(cell.getAttribute("data-balance") ?? "")));
    }
}

/**
 * The column of the nonce, with a mark on those that wait for another.
 * @type {Column<MempoolItem>}
 */
export const nonceColumn = [
    "Nonce",
    (tx) => [grouped(tx.nonce), tx.queued && [" ", badge("pending", tx.queuedReason ?? "queued")]],
    "end",
];
