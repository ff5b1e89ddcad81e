// When a view cannot be shown: what happened, and what can be done about it.

import { hasWrongChecksum } from "../addresses.js";
import { Unreachable } from "../api.js";
import { h } from "../dom.js";
import { wholeAccount, wordsView } from "../widgets.js";

/** @import { Failure } from "../api.js" */
/** @import { Context, Shown, View } from "../router.js" */

/**
 * What a person may try next.
 * @type {Record<string, string>}
 */
const ADVICE = {
    UNREACHABLE: "This page loads as soon as the node is back.",
    TX_NOT_FOUND: "It is in no block and not in the mempool. It may be on another chain, or not submitted yet.",
    TX_DROPPED: "It ended without being mined, so it transferred nothing.",
    BLOCK_NOT_FOUND: "Look a block up by its hash, or by its height, from 0 to the latest.",
};

/**
 * What became of a dropped transaction, by the reason that the node gives.
 * @type {Record<string, string>}
 */
const DROPPED = {
    replaced: "Another transaction with the same nonce took its place.",
    "nonce used": "A block holds another transaction with the same nonce. The sender can sign a new one with the next nonce.",
    evicted: "The sender can submit it again.",
    "cannot be applied": "No block can hold it, though it was accepted. The node's log says why.",
    expired: "Earlier nonces of the sender were missing for too long. The sender can submit it again, after those.",
};

/**
 * Whether the node may answer otherwise another time: what is wrong with the question itself stays wrong.
 * @param {Failure} failure
 */
const mayPass = ({ status }) => status === undefined || status === 429 || status >= 500;

/**
 * The height of a block that the chain had not reached when the view was begun; null for any other view.
 * @param {Context} context
 */
function heightAhead({ route, headBefore }) {
    if (route.name !== "block" || !/^\d+$/.test(route.argument)) return null;
    const height = BigInt(route.argument);
    return height > headBefore ? height : null;
}

/**
 * The account that an address with a wrong checksum may mean.
 * @param {string} address
 */
const wrongChecksumView = (address) =>
    wordsView("Wrong checksum", [
        h("p", null, "A character may be mistyped. If only the case of a letter is wrong, this is the account:"),
        h("p", { class: "meant" }, wholeAccount(address)),
    ]);

/**
 * The view is tried again on request, and by itself once the node is back, or the block is made.
 * @param {Failure} failure
 * @param {Context} context
 * @returns {Shown}
 */
export function failureView(failure, context) {
    const { route, live, signal, again } = context;
    const isWrong = route.name === "account" && hasWrongChecksum(route.argument);
    if (isWrong && !mayPass(failure)) return wrongChecksumView(route.argument);
    if (failure instanceof Unreachable) {
        live.on("connection", () => live.connection === "live" && again(), signal);
    }
    const awaited = failure.code === "BLOCK_NOT_FOUND" ? heightAhead(context) : null;
    if (awaited !== null) {
        const look = () => live.head >= awaited && again();
        live.on("blocks", look, signal);
        look();
    }
    if (!failure.code) console.error(failure);
    const advice = awaited === null ? ADVICE[failure.code ?? ""] : "This page shows the block as soon as it is made.";
    return wordsView(
        failure.status === 404 ? "Not found" : "This did not work",
        [
            h("p", { class: "lead" }, failure.message),
            advice && h("p", null, advice),
            failure.reason && h("p", null, `Reason: ${failure.reason}. ${DROPPED[failure.reason] ?? ""}`),
        ],
        mayPass(failure) && h("button", { type: "button", class: "button", onclick: again }, "Try again"),
    );
}

/**
 * For a route that names no view.
 * @type {View}
 */
export async function missingView() {
    const words = "There is nothing at this address. Use the search field, or go to the overview.";
    return wordsView("No such page", [h("p", null, words)]);
}
