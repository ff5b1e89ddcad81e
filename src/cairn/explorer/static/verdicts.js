// Whether what a view shows is proven, and by whom, in words that everybody understands.

import { asFailure } from "./api.js";
import { grouped } from "./amounts.js";
import { fill, h } from "./dom.js";
import { Doubt, trust, Unchecked } from "./trust.js";
import { badge, blockLink, counted } from "./widgets.js";

/** @import { Child } from "./dom.js" */
/** @import { Context } from "./router.js" */
/** @import { Report } from "./trust.js" */

/**
 * What the node shows beside the same as it is proven. Throws `Doubt` where they differ.
 * @param {[name: string, shown: unknown, signed: unknown][]} claims
 */
export function needSame(claims) {
    for (const [name, shown, signed] of claims) {
        if (shown !== signed) {
            throw new Doubt(`The node shows the ${name} ${written(shown)}. What is signed says ${written(signed)}.`);
        }
    }
}

/**
 * A text is told from a number of the same digits.
 * @param {unknown} value
 */
const written = (value) => (typeof value === "bigint" ? grouped(value) : (JSON.stringify(value) ?? "that there is none"));

/** @param {Report} report */
function proven({ head, signed }) {
    const by = ["By the signature on block ", blockLink(head.height)];
    const changes = signed.steps > 0 && `, after ${counted(signed.steps, "change")} of keys since genesis`;
    if (signed.everybodyHasTheKey) {
        const words = [...by, ", with the key of all dev chains: everybody has it, so it proves nothing."];
        return [badge("doubt", "Signed with the published dev key"), h("p", { class: "hint" }, words)];
    }
    const signers =
        signed.validators === 1
            ? "Signed by the chain's one signer"
            : `Signed by ${signed.by.length} of ${signed.validators} validators`;
    const share = signed.validators > 1 && `, with ${grouped(signed.power)} of ${grouped(signed.of)} of the voting power`;
    const from = [", from ", h("a", { href: "#/status" }, "the genesis that this browser remembers")];
    const alone = signed.validators === 1 && " This is the word of one signer: a witness notices if others are shown another history.";
    const hint = h("p", { class: "hint" }, by, share, changes, from, ".", alone);
    return [badge("confirmed", `${signers}, checked in this browser`), hint];
}

/** @param {unknown} thrown */
function refused(thrown) {
    const failure = asFailure(thrown);
    if (failure instanceof Doubt) {
        return [badge("failed", "Not proven"), h("p", { class: "remark wrong", role: "alert" }, failure.message)];
    }
    // Nothing to be afraid of: a network that rests signs its latest block when it makes the next.
    if (failure instanceof Unchecked && failure.mayPass) {
        return [badge("neutral", "Signed together with the next payment"), h("p", { class: "hint" }, failure.message)];
    }
    return [badge("doubt", failure instanceof Unchecked ? "Not checked" : "No proof"), h("p", { class: "hint" }, failure.message)];
}

/**
 * The place of the verdict on what `check` proves. It is tried again with the next block where a signature is missing,
 * and whenever something new is remembered of the chain.
 * @template {Report} R
 * @param {() => Promise<R>} check
 * @param {Context} context
 * @param {(report: R) => unknown} [show] What to do with what is proven.
 */
export function verdictOf(check, { live, signal }, show) {
    const place = h("div", { class: "proof" }, badge("pending", "Verifying"));
    const judge = async () => {
        try {
            const report = await check();
            if (signal.aborted) return;
            fill(place, proven(report));
            show?.(report);
        } catch (failure) {
            if (signal.aborted) return;
            fill(place, refused(failure));
            if (failure instanceof Unchecked && failure.mayPass) live.addEventListener("blocks", judge, { once: true, signal });
        }
    };
    void judge();
    return place;
}

/**
 * What is wrong with everything that the node shows, above every view.
 * @param {HTMLElement} place
 */
export function showAlarm(place) {
    const show = () => {
        place.hidden = trust.alarm === null;
        /** @type {Child[]} */
        const words = [h("strong", null, "Do not trust this page. "), trust.alarm, " "];
        fill(place, words, h("a", { href: "#/status" }, "What this browser remembers"));
    };
    trust.addEventListener("change", show);
    show();
}
