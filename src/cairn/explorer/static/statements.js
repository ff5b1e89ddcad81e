// The statement of an account: all that happened to it from one block to another, as a file that proves it.

import { grouped } from "./amounts.js";
import { announce, fill, h } from "./dom.js";
import { offerFile } from "./history.js";
import { trust } from "./trust.js";
import { needSame, verdictOf } from "./verdicts.js";
import { amount, counted } from "./widgets.js";

/** @import { Context } from "./router.js" */
/** @import { StatementReport } from "./trust.js" */

/**
 * The file, once it is proven. A block that is not named is the earliest that the node can prove, or the latest that is
 * signed. Throws `Doubt`.
 * @param {string} address
 * @param {{ from: string, to: string }} blocks
 * @param {AbortSignal} signal
 */
async function provenStatement(address, { from, to }, signal) {
    const query = new URLSearchParams({ ...(from && { from }), ...(to && { to }) });
    const path = `/account/${address}/statement?${query}`;
    const report = /** @type {StatementReport & { text: string }} */ (await trust.check(path, signal));
    if (to === "") trust.needLatest(report.head);
    needSame([
        ["address", address, `0x${report.address}`],
        ["first block", from === "" ? report.from : BigInt(from), report.from],
        ["last block", to === "" ? report.head.height : BigInt(to), report.to],
    ]);
    return report;
}

/** @param {StatementReport} report */
function summary({ from, to, opening, closing, entries }) {
    const payments = entries.reduce((sum, entry) => sum + entry.payments.length, 0);
    return [
        `Saved: all of blocks ${grouped(from)} to ${grouped(to)}, with ${counted(payments, "payment")}. Balance before: `,
        amount(opening.balance),
        ", after: ",
        amount(closing.balance),
        ".",
    ];
}

/**
 * @param {"from" | "to"} name
 * @param {string} label
 * @param {string} otherwise
 */
function blockField(name, label, otherwise) {
    const id = `statement-${name}`;
    const input = h("input", { id, inputmode: "numeric", pattern: "[0-9]{1,15}", autocomplete: "off", placeholder: otherwise });
    return { input, parts: [h("label", { for: id }, label), input] };
}

/**
 * A form that saves the statement once the browser has checked it.
 * @param {string} address
 * @param {Context} context
 */
export function statementForm(address, context) {
    const [from, to] = [blockField("from", "From block", "earliest"), blockField("to", "to block", "latest")];
    const button = h("button", { class: "button" }, "Save the statement");
    const place = h("div");
    let asked = new AbortController();
    /** @param {SubmitEvent} event */
    const save = (event) => {
        event.preventDefault();
        asked.abort();
        asked = new AbortController();
        const signal = AbortSignal.any([context.signal, asked.signal]);
        const blocks = { from: from.input.value, to: to.input.value };
        const check = () => {
            button.disabled = true;
            return provenStatement(address, blocks, signal).finally(() => {
                button.disabled = false;
            });
        };
        const saved = h("p", { class: "hint" });
        const verdict = verdictOf(check, { ...context, signal }, (report) => {
            offerFile(`statement-${address.slice(0, 10)}-${report.from}-${report.to}.json`, report.text, "application/json");
            fill(saved, summary(report));
            announce("The statement is checked and saved");
        });
        fill(place, verdict, saved);
    };
    return h(
        "form",
        { onsubmit: save, class: "statement" },
        h(
            "p",
            { class: "hint about" },
            "The list above and the CSV file are what the node says: they are not proven, and a payment may be missing. ",
            "The statement proves every payment and that none is left out. It is checked in this browser before it is ",
            "saved, and others check it with cairn check or verify.mjs.",
        ),
        h("div", { class: "inline actions" }, from.parts, to.parts, button),
        place,
    );
}
