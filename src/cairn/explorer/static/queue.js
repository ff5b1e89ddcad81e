// Queued transactions: no block can take them before their sender submits a missing nonce.

import { getAccount } from "./api.js";
import { grouped } from "./amounts.js";
import { badge } from "./widgets.js";

/** @import { Transfer } from "./api.js" */
/** @import { Column } from "./widgets.js" */
/** @typedef {Map<string, bigint>} NextNonces By sender. */

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
 * The nonce that is missing before this transaction, or null when nothing is.
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
