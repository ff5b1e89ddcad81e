// The progress of a transaction: accepted, pending, confirmed.

import { checksummed } from "./addresses.js";
import { asFailure, awaitTransaction, isProblem, pause, Unreachable } from "./api.js";
import { describeAmount, grouped } from "./amounts.js";
import { announce, fill, h } from "./dom.js";
import { nameOf } from "./names.js";
import { accountLink, amount, blockLink, copyButton, hashLink } from "./widgets.js";

/** @import { Confirmed } from "./api.js" */
/** @import { Child } from "./dom.js" */

const WAIT_S = 25;
const RETRY_MS = 1_000;

/**
 * The confirmed transaction, however long it takes and even if the node restarts meanwhile. Throws its `Problem`.
 * @param {string} hash
 * @param {AbortSignal} signal
 * @returns {Promise<Confirmed>}
 */
export async function untilConfirmed(hash, signal) {
    for (;;) {
        try {
            const tx = await awaitTransaction(hash, WAIT_S, signal);
            if (tx.status === "confirmed") return tx;
        } catch (failure) {
            const isPassing = failure instanceof Unreachable || isProblem(failure, 503);
            if (!isPassing) throw failure;
            await pause(RETRY_MS, signal);
        }
    }
}

/** @type {(state: "done" | "now" | "later" | "failed", ...content: Child[]) => HTMLElement} */
const step = (state, ...content) =>
    h("li", { class: state, "aria-current": state === "now" ? "step" : null }, ...content);

/** @typedef {{ to: string, value: bigint }} Payment */

/**
 * Shows a submitted payment until it is confirmed or dropped, above those that were sent before.
 * @param {HTMLElement} list
 * @param {string} hash
 * @param {Payment} payment
 * @param {AbortSignal} signal
 */
export async function showProgress(list, hash, { to, value }, signal) {
    const submitted = step("done", "Accepted and on disk ", hashLink("tx", hash), copyButton(hash, "transaction hash"));
    const steps = h("ol", { class: "progress" }, submitted, step("now", "Pending"), step("later", "Confirmed"));
    const what = h("p", { class: "paid" }, amount(value), " to ", accountLink(to));
    const words = `${describeAmount(value)} to ${nameOf(to) ?? checksummed(to)}`;
    const receipt = h("section", { class: "receipt", "aria-label": `Payment of ${words}` }, what, steps);
    list.prepend(receipt);
    announce(`The payment of ${words} is pending`);
    try {
        const tx = await untilConfirmed(hash, signal);
        const confirmed = step("done", "Confirmed in block ", blockLink(tx.blockHeight));
        fill(steps, submitted, step("done", "Mined"), confirmed);
        receipt.classList.add("ended");
        announce(`${words}: confirmed in block ${grouped(tx.blockHeight)}`);
    } catch (failure) {
        if (signal.aborted) return;
        const { message } = asFailure(failure);
        fill(steps, submitted, step("failed", message));
        receipt.classList.add("ended");
        announce(message);
    }
}

/**
 * Put the receipts away whose payments have ended: they are not about what is refused now.
 * @param {HTMLElement} list
 */
export function clearEnded(list) {
    for (const receipt of list.querySelectorAll(".receipt.ended")) receipt.remove();
}
