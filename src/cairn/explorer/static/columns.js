// Columns of tables that need more than the list: the balances of accounts, and which transactions are queued.

import { getAccount, rpc } from "./api.js";
import { grouped } from "./amounts.js";
import { fill, h } from "./dom.js";
import { badge, bareAmount } from "./widgets.js";

/** @import { Transfer } from "./api.js" */
/** @import { Column } from "./widgets.js" */
/** @typedef {Map<string, bigint>} NextNonces By sender. */

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
 * The next nonce that can be mined of each sender of these transactions.
 * @param {Transfer[]} transactions
 * @param {AbortSignal} signal
 * @returns {Promise<NextNonces>}
 */
export async function nextNonces(transactions, signal) {
    const senders = [...new Set(transactions.map((tx) => tx.from))];
    const accounts = await Promise.all(senders.map((sender) => getAccount(sender, signal)));
    return new Map(accounts.map((account) => [account.address, account.pendingNonce]));
}

/**
 * The nonce that must be submitted before a block can hold this queued transaction; null for a pending one.
 * @param {Transfer} tx
 * @param {NextNonces} next
 */
export function missingNonce(tx, next) {
    const nonce = next.get(tx.from);
    return nonce !== undefined && tx.nonce > nonce ? nonce : null;
}

/**
 * The column of the nonce, with a mark on those that wait for another.
 * @type {(next: NextNonces) => Column<Transfer>}
 */
export const nonceColumn = (next) => [
    "Nonce",
    (tx) => {
        const missing = missingNonce(tx, next);
        return [grouped(tx.nonce), missing !== null && [" ", badge("pending", `needs ${grouped(missing)}`)]];
    },
    "end",
];
