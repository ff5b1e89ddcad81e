// One transaction: what it moves, where it is, and the proof that its block holds it.

import { getTransaction } from "../api.js";
import { formatAmount, grouped } from "../amounts.js";
import { announce, fill, h } from "../dom.js";
import { offerFile } from "../history.js";
import { untilConfirmed } from "../progress.js";
import { dataOf, decodedText, doubtsOf, textOf } from "../references.js";
import { href } from "../routes.js";
import { trust } from "../trust.js";
import { needSame, verdictOf } from "../verdicts.js";
import {
    age,
    amountWithCopy,
    badge,
    blockLink,
    card,
    copyable,
    counted,
    dateOf,
    facts,
    hashLink,
    jsonCard,
    pageHead,
    view,
    withCopy,
    wholeAccount,
    wholeBlockHash,
} from "../widgets.js";
import { PAGE } from "./block.js";

/** @import { Confirmed, Pending } from "../api.js" */
/** @import { Child } from "../dom.js" */
/** @import { Live } from "../live.js" */
/** @import { Context, View } from "../router.js" */
/** @import { ReceiptReport } from "../trust.js" */

/**
 * What the page shows of the transaction, beside the same as its sender and the validators have signed it.
 * @param {Confirmed} tx
 * @param {ReceiptReport} report
 */
function needSigned(tx, { block, payment }) {
    const { type, maxFee, maxTip, data } = payment;
    const isDynamic = type === 2;
    const bytes = data === "" ? undefined : `0x${data}`;
    needSame([
        ["hash", tx.txHash, `0x${payment.hash}`],
        ["amount in wei", tx.value, payment.value],
        ["sender", tx.from, `0x${payment.from}`],
        ["recipient", tx.to, `0x${payment.to}`],
        ["data", tx.data, bytes],
        // The node may know fewer characters than this browser, and leave the text out; another text is a lie.
        ["reference", tx.reference, tx.reference === undefined ? undefined : decodedText(dataOf({ data: bytes }))],
        ["fee in wei", tx.fee, payment.fee],
        ["gas price", tx.gasPrice, payment.gasPrice],
        ["type", tx.type, type === 0 ? undefined : BigInt(type)],
        ["highest gas price", tx.maxFeePerGas, isDynamic ? maxFee : undefined],
        ["highest tip", tx.maxPriorityFeePerGas, isDynamic ? maxTip : undefined],
        ["gas limit", tx.gas, payment.gas],
        ["nonce", tx.nonce, payment.nonce],
        ["status", tx.status, "confirmed"],
        ["block", tx.blockHeight, block.height],
        ["block hash", tx.blockHash, `0x${block.hash}`],
        ["place in the block", tx.transactionIndex, payment.index],
    ]);
}

const ABOUT =
    "Your browser has followed the signatures from genesis to this block, the path from the block to this transaction, " +
    "and the sender's own signature. This page comes from the same node: to rely on nothing of it, save the receipt and " +
    "check it with cairn check or verify.mjs.";

/**
 * The same file with one bit of the transaction flipped, to see that the check is a real one.
 * @param {string} file
 */
const tampered = (file) =>
    file.replace(/("transaction":\s*"0x[0-9a-f]*)([0-9a-f])"/, (_, start, digit) => {
        return `${start}${(Number.parseInt(digit, 16) ^ 1).toString(16)}"`;
    });

/**
 * @param {Confirmed} tx
 * @param {Context} context
 * @param {(timestamp: bigint) => unknown} showTime
 */
function proofCard(tx, context, showTime) {
    const { signal } = context;
    const path = `/tx/${tx.txHash}/receipt`;
    const place = h("div");
    const more = h("div");
    const check = async () => {
        const report = /** @type {ReceiptReport & { text: string }} */ (await trust.check(path, signal));
        needSigned(tx, report);
        return report;
    };
    /** @param {ReceiptReport & { text: string }} report */
    const offer = ({ block, text }) => {
        showTime(block.time);
        const toggle = h("button", { type: "button", class: "button", "aria-pressed": "false" }, "Flip one bit");
        toggle.addEventListener("click", () => {
            const isTampered = toggle.getAttribute("aria-pressed") === "false";
            toggle.setAttribute("aria-pressed", String(isTampered));
            fill(place, verdictOf(() => (isTampered ? trust.proven(tampered(text)) : check()), context));
        });
        const save = () => offerFile(`receipt-${tx.txHash.slice(0, 10)}.json`, text, "application/json");
        const button = h("button", { type: "button", class: "button", onclick: save }, "Save the receipt");
        fill(more, h("p", { class: "hint about" }, ABOUT), h("p", { class: "actions" }, button, toggle));
    };
    fill(place, verdictOf(check, context, offer));
    return card("Proof", place, more);
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

/**
 * Where the transaction is in its block, counted from 1 as on the page of the block.
 * @param {Confirmed} tx
 */
function position({ blockHeight, transactionIndex }) {
    const number = transactionIndex + 1n;
    const page = transactionIndex / BigInt(PAGE) + 1n;
    return h("a", { href: href(`/block/${blockHeight}`, { page }) }, `#${grouped(number)} in the block (index ${grouped(transactionIndex)})`);
}

const TYPES = ["0 (legacy)", "1 (EIP-2930)", "2 (EIP-1559)"];

/** @returns {[name: string, value: Child][]} */
const noReference = () => [["Reference", h("span", { class: "unit" }, "None")]];

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
    const time = h("span", null, "…");
    const awaited = isPending ? await waitingFor(tx, live, signal) : null;
    if (isPending) showOnceConfirmed(tx.txHash, context);
    return view(
        `Transaction ${tx.txHash.slice(0, 10)}…`,
        pageHead("Transaction", standing(tx, live, signal)),
        card(
            null,
            facts(
                ["Hash", copyable(tx.txHash, "transaction hash")],
                ["Amount", h("span", { class: "balance" }, amountWithCopy(tx.value, "amount"))],
                ["From", wholeAccount(tx.from)],
                ["To", wholeAccount(tx.to)],
                isPending
                    ? ["Block", awaited]
                    : ["Block", [blockLink(tx.blockHeight), " ", wholeBlockHash(tx.blockHash)]],
                !isPending && ["Position", position(tx)],
                ...(tx.data === undefined ? noReference() : referenceFacts(tx.data)),
                !isPending && ["Time", time],
                !isPending && ["Fee", amountWithCopy(tx.fee, "fee")],
                ["Type", TYPES[Number(tx.type ?? 0n)] ?? grouped(tx.type ?? 0n)],
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
        !isPending && proofCard(tx, context, (timestamp) => fill(time, timeOf(timestamp))),
        jsonCard(`/tx/${tx.txHash}`, signal),
    );
}
