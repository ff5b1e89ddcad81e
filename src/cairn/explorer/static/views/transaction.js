// One transaction: what it moves, where it is, and the proof that its block holds it.

import { getProof, getTransaction } from "../api.js";
import { formatAmount, grouped } from "../amounts.js";
import { announce, fill, h } from "../dom.js";
import { untilConfirmed } from "../progress.js";
import { verifyProof } from "../proof.js";
import { doubtsOf, textOf } from "../references.js";
import {
    age,
    amount,
    badge,
    blockLink,
    card,
    copyable,
    counted,
    dateOf,
    facts,
    hashLink,
    pageHead,
    view,
    withCopy,
    wholeAccount,
    wholeBlockHash,
} from "../widgets.js";

/** @import { Confirmed, Pending, Proof } from "../api.js" */
/** @import { Child } from "../dom.js" */
/** @import { Live } from "../live.js" */
/** @import { Check, Claim, Step } from "../proof.js" */
/** @import { Context, View } from "../router.js" */

/** @param {string} text */
const code = (text) => h("span", { class: "code whole" }, text);

/** @param {Step} step */
function climbStep({ side, sibling, result }) {
    if (sibling === null) {
        return h(
            "li",
            null,
            h("strong", null, "Hash the transaction as a leaf"),
            h("p", null, "SHA-256 of 0x00 and the transaction's hash"),
            code(result),
        );
    }
    const about = side === "left" ? "SHA-256 of 0x01, the sibling and this" : "SHA-256 of 0x01, this and the sibling";
    return h(
        "li",
        null,
        h("strong", null, `Join with the sibling on the ${side}`),
        h("p", null, about),
        h("p", { class: "sibling" }, "Sibling ", code(sibling)),
        code(result),
    );
}

/** @type {Record<Claim, [title: string, about: string]>} */
const CHECKS = {
    transaction: [
        "The hash of the transaction",
        "Keccak-256 of what its sender signed, with the signature, must be the hash of the transaction",
    ],
    sender: ["The sender", "The account whose key made the signature must be the sender"],
    root: [
        "The root of the block's transactions",
        "The last result must be the transactionsRoot in the block's header",
    ],
    header: [
        "The hash of the block's header",
        "Keccak-256 of the header, which includes that root, must be the hash of the block",
    ],
    shown: ["What this page shows", "Amount, accounts, fee and place must be those of the proof"],
};

/** @param {Check} check */
function checkStep({ name, computed, claimed, holds }) {
    const [title, about] = CHECKS[name];
    return h(
        "li",
        { class: holds ? "holds" : "breaks" },
        h("strong", null, title, " ", badge(holds ? "confirmed" : "failed", holds ? "Same" : "Differs")),
        h("p", null, about),
        code(computed),
        !holds && h("p", { class: "claimed" }, "The node says ", code(claimed)),
    );
}

/**
 * The same proof with one bit flipped, to see that the check is a real one.
 * @param {Proof} proof
 */
function tampered(proof) {
    /** @param {string} hex */
    const flip = (hex) => hex.slice(0, -1) + (Number.parseInt(hex.slice(-1), 16) ^ 1).toString(16);
    if (proof.proof.length === 0)
        return { ...proof, header: { ...proof.header, transactionsRoot: flip(proof.header.transactionsRoot) } };
    return { ...proof, proof: [flip(proof.proof[0]), ...proof.proof.slice(1)] };
}

/**
 * @param {Proof} proof
 * @param {string} txHash
 * @param {Confirmed} tx
 */
function proofCard(proof, txHash, tx) {
    const [verdictPlace, list] = [h("p", { class: "verdict", role: "status" }), h("ol", { class: "proof" })];
    const toggle = h("button", { type: "button", class: "button", "aria-pressed": "false" }, "Flip one bit");
    /** @param {Proof} shown */
    const show = (shown) => {
        const { steps, checks, holds } = verifyProof(shown, txHash, tx);
        const verdict = holds
            ? badge("confirmed", "Verified in this page")
            : badge("failed", "The proof does not hold");
        fill(verdictPlace, verdict);
        fill(list, steps.map(climbStep), checks.map(checkStep));
    };
    toggle.addEventListener("click", () => {
        const isTampered = toggle.getAttribute("aria-pressed") === "false";
        toggle.setAttribute("aria-pressed", String(isTampered));
        show(isTampered ? tampered(proof) : proof);
    });
    show(proof);
    const [number, count] = [grouped(proof.transactionIndex + 1n), grouped(proof.header.transactionCount)];
    return card(
        "Proof of inclusion",
        h(
            "p",
            null,
            `Transaction ${number} of ${count} in the block. `,
            "Your browser has computed every hash below. What remains to be trusted is the hash of the block, ",
            "which any other node can confirm.",
        ),
        h("div", { class: "verdict-row" }, verdictPlace, toggle),
        list,
    );
}

/**
 * @param {Confirmed | Pending} tx
 * @param {Live} live
 * @param {AbortSignal} signal
 */
function standing(tx, live, signal) {
    if (tx.status === "pending") return badge("pending", "Pending");
    const place = h("span", { class: "verdict" });
    const show = () => {
        const later = live.blocks[0].blockHeight - tx.blockHeight;
        const where = later > 0n ? `${counted(later, "block")} ago` : "in the latest block";
        fill(place, badge("confirmed", "Confirmed"), ` and final, ${where}`);
    };
    live.on("blocks", show, signal);
    show();
    return place;
}

/**
 * What a pending transaction waits for.
 * @param {Pending} tx
 * @param {Live} live
 * @param {AbortSignal} signal
 */
async function waitingFor(tx, live, signal) {
    const place = h("span");
    const show = async () => {
        // It may have been replaced since.
        const now = await getTransaction(tx.txHash, signal);
        if (now.status !== "pending") return;
        if (now.notHeld !== undefined) {
            const instead = now.replacedBy === undefined ? [] : [", by ", hashLink("tx", now.replacedBy)];
            const why = `None yet: this node no longer holds it (${now.notHeld}`;
            fill(place, why, instead, "). Another node may still confirm it");
            return;
        }
        const gap = `Queued: it ${now.queuedReason} of the sender, which must be mined first`;
        fill(place, now.queued ? gap : "None yet: it is pending");
    };
    live.on("chain", () => show().catch(() => {}), signal);
    await show();
    return place;
}

/**
 * What the payment is for: its text with all that is strange about it, and its bytes.
 * @param {string} data
 * @returns {[name: string, value: Child][]}
 */
function referenceFacts(data) {
    const text = textOf(data);
    const size = counted(Math.max(0, data.length - 2) / 2, "byte");
    const bytes = [copyable(data, "data"), h("p", { class: "hint" }, text === null ? `${size}, not text` : size)];
    if (text === null) return [["Data", bytes]];
    const doubts = doubtsOf(text);
    const shown = withCopy(h("bdi", { class: "reference whole" }, text), text, "reference");
    const warning = doubts.length > 0 && h("p", { class: "doubts" }, badge("doubt", "Look closely"), " ", doubts.join(" "));
    return [
        ["Reference", [shown, warning]],
        ["Data", bytes],
    ];
}

/** @param {bigint} timestamp */
const timeOf = (timestamp) => [dateOf(timestamp).toLocaleString(), " (", age(timestamp), ")"];

/**
 * @param {string} hash
 * @param {Context} context
 */
async function showOnceConfirmed(hash, { signal, again }) {
    await untilConfirmed(hash, signal).then(
        () => announce("The transaction is confirmed"),
        () => {},
    );
    if (!signal.aborted) again();
}

/** @type {View} */
export async function transactionView(context) {
    const { route, live, signal } = context;
    await live.loaded;
    const hash = route.argument.toLowerCase();
    const tx = await getTransaction(hash, signal);
    const isPending = tx.status === "pending";
    const proof = isPending ? null : await getProof(hash, signal);
    const awaited = isPending ? await waitingFor(tx, live, signal) : null;
    if (isPending) showOnceConfirmed(tx.txHash, context);
    return view(
        `Transaction ${tx.txHash.slice(0, 10)}…`,
        pageHead("Transaction", standing(tx, live, signal)),
        card(
            null,
            facts(
                ["Hash", copyable(tx.txHash, "transaction hash")],
                ["Amount", h("span", { class: "balance" }, amount(tx.value))],
                ["From", wholeAccount(tx.from)],
                ["To", wholeAccount(tx.to)],
                isPending
                    ? ["Block", awaited]
                    : ["Block", [blockLink(tx.blockHeight), " ", wholeBlockHash(tx.blockHash)]],
                ...(tx.data === undefined ? [] : referenceFacts(tx.data)),
                proof && ["Time", timeOf(proof.header.timestamp)],
                !isPending && ["Fee", amount(tx.fee)],
                ["Gas price", `${formatAmount(tx.gasPrice, "gwei")} gwei`],
                tx.maxFeePerGas !== undefined &&
                    tx.maxPriorityFeePerGas !== undefined && [
                        "Gas price limit",
                        `${formatAmount(tx.maxFeePerGas, "gwei")} gwei, of which a tip of ` +
                            `${formatAmount(tx.maxPriorityFeePerGas, "gwei")} gwei at most`,
                    ],
                ["Gas limit", grouped(tx.gas)],
                ["Nonce", grouped(tx.nonce)],
            ),
        ),
        !isPending && proof && proofCard(proof, hash, tx),
    );
}
