// One account: its balance, its pending transactions, and everything that it sent or received.

import { devAccounts, getAccount, getChain, listHistory, listMempool } from "../api.js";
import { checksummed } from "../addresses.js";
import { grouped } from "../amounts.js";
import { announce, fill, h } from "../dom.js";
import { refusalPlace, untilDone } from "../fields.js";
import { blockTimes, historyFile, MOST_ROWS, offerFile } from "../history.js";
import { cursorPager, firstNumber, knownEnd, PAGE, rangeWords } from "../pages.js";
import { devName, labelOf, LONGEST_LABEL, nameOf, setLabel } from "../names.js";
import { qrCode } from "../qr.js";
import { nonceColumn } from "../columns.js";
import { href } from "../routes.js";
import { statementForm } from "../statements.js";
import { avatar } from "../stones.js";
import { trust } from "../trust.js";
import { needSame, verdictOf } from "../verdicts.js";
import {
    accountLink,
    age,
    amount,
    amountWithCopy,
    badge,
    bareAmount,
    blockLink,
    card,
    copyable,
    counted,
    facts,
    freshNotice,
    hashLink,
    jsonCard,
    referenceColumns,
    table,
    transactionColumns,
    view,
} from "../widgets.js";

/** @import { Account, Confirmed, Page } from "../api.js" */
/** @import { Context, View } from "../router.js" */
/** @import { AccountReport } from "../trust.js" */
/** @import { Column } from "../widgets.js" */

const PENDING_SHOWN = 10;

/** How many items a history is counted ahead of the page that is shown. */
const COUNTED_AHEAD = 200;

/** @type {(items: Confirmed[], address: string, times: Map<bigint, bigint>) => Column<Confirmed>[]} */
const historyColumns = (items, address, times) => [
    ["Transaction", (tx) => hashLink("tx", tx.txHash)],
    ["Block", (tx) => blockLink(tx.blockHeight)],
    ["Age", (tx) => ageOf(times.get(tx.blockHeight))],
    ["Direction", (tx) => direction(tx, address)],
    ["Other account", (tx) => accountLink(tx.from === address ? tx.to : tx.from)],
    ...referenceColumns(items),
    ["Amount (coins)", (tx) => bareAmount(tx.value), "end"],
];

/** @param {bigint | undefined} time */
const ageOf = (time) => time !== undefined && age(time);

/**
 * @param {Confirmed} tx
 * @param {string} address
 */
function direction(tx, address) {
    if (tx.from === tx.to) return badge("self", "To itself");
    return tx.from === address ? badge("out", "Sent") : badge("in", "Received");
}

/**
 * Which transactions the page shows, and of how many; of a long history the latter is not known at once.
 * @param {string} address
 * @param {Page<Confirmed>} page
 * @param {number | null} first
 * @param {AbortSignal} signal
 */
function historyRange(address, page, first, signal) {
    const place = h("p", { class: "page-number" }, rangeWords(first, page, page.total));
    if (page.after === null || first === null) return place;
    const count = async () => {
        const ahead = await listHistory(address, { limit: COUNTED_AHEAD, after: page.after }, signal);
        const all = first - 1 + page.items.length + ahead.items.length;
        if (ahead.after === null) fill(place, rangeWords(first, page, BigInt(all)));
        else fill(place, `${rangeWords(first, page, null)} of more than ${grouped(all)}`);
    };
    // Without an answer the range is shown alone.
    count().catch(() => {});
    return place;
}

/**
 * @param {string} address
 * @param {Page<Confirmed>} history
 * @param {Context} context
 */
async function historyCard(address, history, context) {
    const { route, live, signal } = context;
    const times = await blockTimes(history.items, live, signal);
    const [shown, first] = [checksummed(address), firstNumber(route, history)];
    return card(
        "History",
        table(
            "Confirmed transactions, latest first",
            historyColumns(history.items, address, times),
            history.items,
            "This account has sent and received nothing yet.",
        ),
        historyRange(address, history, first, signal),
        cursorPager("Pages of the history", `/account/${shown}`, {}, history, first),
        history.items.length > 0 && historyButton(address, context),
        statementForm(address, context),
    );
}

/**
 * @param {string} address
 * @param {AbortSignal} signal
 */
async function pendingCard(address, signal) {
    const { items, total } = await listMempool({ from: address, limit: PENDING_SHOWN }, signal);
    if (items.length === 0) return null;
    const shown = total > BigInt(items.length) ? `, the first ${items.length} listed` : "";
    return card(
        `${grouped(total)} pending${shown}`,
        table("Pending transactions of the account", transactionColumns(...referenceColumns(items), nonceColumn), items),
    );
}

/**
 * Offers to read the account again once a block has changed it.
 * @param {Account} shown
 * @param {Context} context
 */
function changeNotice(shown, { live, signal, again }) {
    const notice = freshNotice(again);
    const look = async () => {
        const { balance, nonce } = await getAccount(shown.address, signal).catch(() => shown);
        if (balance !== shown.balance || nonce !== shown.nonce) notice.show("This account has changed. Show it");
    };
    live.on("blocks", look, signal);
    return notice.element;
}

/**
 * A label of the viewer's own.
 * @param {string} address
 * @param {() => unknown} again
 */
function labelForm(address, again) {
    const input = h("input", {
        id: "label",
        maxlength: LONGEST_LABEL,
        autocomplete: "off",
        value: labelOf(address) ?? "",
        "aria-describedby": "label-remark",
    });
    const remark = h("p", { id: "label-remark", class: "remark" }, "Only you see it: it is kept in this browser.");
    /** @param {SubmitEvent} event */
    const save = async (event) => {
        event.preventDefault();
        const problem = setLabel(address, input.value);
        remark.classList.toggle("wrong", problem !== null);
        if (problem !== null) {
            remark.textContent = problem;
            input.focus();
            return;
        }
        announce(labelOf(address) === null ? "Label removed" : "Label saved");
        await again();
        // The view was made again, and the focus went with the old one.
        document.getElementById("label")?.focus();
    };
    return h(
        "form",
        { onsubmit: save },
        h(
            "div",
            { class: "inline" },
            h("label", { for: "label", class: "unseen" }, "Label"),
            input,
            h("button", { class: "button" }, "Save"),
        ),
        remark,
    );
}

/**
 * A button that makes a file of the history.
 * @param {string} address
 * @param {Context} context
 */
function historyButton(address, { live, signal }) {
    const refusal = refusalPlace();
    const button = h("button", { type: "button", class: "button" }, "Download as CSV");
    const save = async () => {
        try {
            const { text, rows } = await historyFile(address, live, signal);
            offerFile(`${checksummed(address)}.csv`, text, "text/csv");
            announce(`The file has ${counted(rows, "transaction")}`);
        } catch (failure) {
            // Who has left the page is told nothing more.
            if (!signal.aborted) {
                throw failure;
            }
        }
    };
    button.addEventListener("click", () => untilDone(button, refusal, save));
    const hint = `Up to ${grouped(MOST_ROWS)} transactions, latest first.`;
    const search = h("a", { class: "button", href: href("/txs", { account: checksummed(address) }) }, "Filter");
    return h("div", { class: "actions" }, search, button, h("p", { class: "hint" }, hint), refusal.element);
}

/**
 * What is proven of the account. The node may know of a later block, which nobody has signed yet; if there is none, it
 * must say the same. Throws `Doubt`.
 * @param {string} address
 * @param {AbortSignal} signal
 */
async function provenAccount(address, signal) {
    const report = /** @type {AccountReport & { text: string }} */ (await trust.check(`/account/${address}/proof`, signal));
    trust.needLatest(report.head);
    needSame([
        ["address", address, `0x${report.address}`],
        ["height", report.height, report.head.height],
    ]);
    // In this order: a block that came after the proof is seen with what it changed.
    const now = await getAccount(address, signal);
    const { head } = await getChain(signal);
    if (head.blockHeight <= report.height) {
        needSame([
            ["balance in wei", now.balance, report.balance],
            ["number of transactions sent", now.nonce, report.nonce],
        ]);
    }
    return { ...report, now };
}

/**
 * The account's facts, and its address for a phone to read. Balance and nonce are those that are proven, once they are.
 * @param {Account} account
 * @param {Context} context
 */
function accountCard(account, context) {
    const shown = checksummed(account.address);
    const dev = devName(account.address);
    const [balance, since, sent] = [h("span", { class: "balance" }), h("p", { class: "hint" }), h("span")];
    /** @param {{ balance: bigint, nonce: bigint }} held */
    const show = (held) => {
        const pending = account.pendingNonce - held.nonce;
        fill(balance, amountWithCopy(held.balance, "balance"));
        fill(sent, grouped(held.nonce), pending > 0n && ` and ${grouped(pending)} pending`);
    };
    show(account);
    const verdict = verdictOf(
        () => provenAccount(account.address, context.signal),
        context,
        (report) => {
            show(report);
            const { now, height } = report;
            const isOlder = now.balance !== report.balance;
            const words = `After block ${grouped(height)}. After the latest block, which is signed together with the next payment: `;
            fill(since, isOlder && [words, amount(now.balance), "."]);
        },
    );
    return card(
        null,
        facts(
            dev !== null && ["Name", dev],
            ["Address", copyable(shown, "address")],
            ["Balance", [balance, since, verdict]],
            ["Transactions sent", sent],
            ["Label", labelForm(account.address, context.again)],
            ["QR code", h("details", { class: "qr" }, h("summary", null, "Show the QR code"), qrCode(shown))],
        ),
    );
}

/** @type {View} */
export async function accountView(context) {
    const { route, live, signal } = context;
    await live.loaded;
    const [after, before] = [route.query.get("after"), route.query.get("before")];
    const account = await getAccount(route.argument, signal);
    const { address } = account;
    const [listed, pending, dev] = await Promise.all([
        listHistory(address, { limit: PAGE, after, before }, signal),
        pendingCard(address, signal),
        devAccounts(signal),
    ]);
    const history = knownEnd(route, listed);
    const [shown, name] = [checksummed(address), nameOf(address)];
    return view(
        `Account ${name ?? `${shown.slice(0, 10)}…`}`,
        h(
            "div",
            { class: "page-head" },
            h("h1", { class: "with-avatar" }, avatar(address, 44), name === null ? "Account" : `Account ${name}`),
            changeNotice(account, context),
            h(
                "nav",
                { class: "pager", "aria-label": "Actions" },
                devName(address) !== null &&
                    h("a", { class: "button", href: href("/send", { from: shown }) }, "Send from this account"),
                h("a", { class: "button", href: href("/send", { to: shown }) }, "Send to it"),
                dev.length > 0 && h("a", { class: "button", href: href("/faucet", { to: shown }) }, "Get coins"),
            ),
        ),
        accountCard(account, context),
        !after && !before && pending,
        await historyCard(address, history, context),
        jsonCard(`/account/${shown}`, signal),
    );
}
