// When a view cannot be shown: what happened, and what can be done about it.

import { Unreachable } from "../api.js";
import { h } from "../dom.js";
import { card } from "../widgets.js";

/** @import { Failure } from "../api.js" */
/** @import { Context, Shown } from "../router.js" */

/**
 * What a person may try next.
 * @type {Record<string, string>}
 */
const ADVICE = {
    UNREACHABLE: "This page loads as soon as the node is back.",
    TX_NOT_FOUND: "It is in no block and not in the mempool. It may be on another chain, or not submitted yet.",
    TX_DROPPED: "It left the mempool without being mined, so nothing was transferred. The sender can submit it again.",
    BLOCK_NOT_FOUND: "Look a block up by its hash, or by its height, from 0 to the latest.",
};

/**
 * Whether the node may answer otherwise another time: what is wrong with the question itself stays wrong.
 * @param {Failure} failure
 */
const mayPass = ({ status }) => status === undefined || status === 429 || status >= 500;

/**
 * The view is tried anew on request, and by itself once the node is back.
 * @param {Failure} failure
 * @param {Context} context
 * @returns {Shown}
 */
export function failureView(failure, { live, signal, again }) {
    if (failure instanceof Unreachable) {
        live.on("connection", () => live.connection === "live" && again(), signal);
    }
    const isMissing = failure.status === 404;
    if (!failure.code) console.error(failure);
    const advice = ADVICE[failure.code ?? ""];
    const title = isMissing ? "Not found" : "This did not work";
    return {
        title,
        content: h(
            "div",
            { class: "view narrow" },
            card(
                null,
                h("h1", null, title),
                h("p", { class: "lead" }, failure.message),
                advice && h("p", null, advice),
                failure.reason && h("p", null, `Reason: ${failure.reason}.`),
                h(
                    "p",
                    { class: "actions" },
                    h("a", { href: "#/", class: "button" }, "Go to the overview"),
                    mayPass(failure) && h("button", { type: "button", class: "button", onclick: again }, "Try again"),
                ),
            ),
        ),
    };
}
