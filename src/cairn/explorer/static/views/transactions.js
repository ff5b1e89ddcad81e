// All transactions of the chain, or those of an account that a filter lets through, newest first.

import { checksummed } from "../addresses.js";
import { listBlocks, listHistory } from "../api.js";
import { grouped } from "../amounts.js";
import { h } from "../dom.js";
import { addressField, field } from "../fields.js";
import { blockTimes } from "../history.js";
import { cursorPager, firstNumber, knownEnd, PAGE, rangeWords } from "../pages.js";
import { href } from "../routes.js";
import { cursorOf, walkDown, walkUp } from "../walk.js";
import { accountLink, age, bareAmount, blockLink, card, counted, freshNotice, hashLink, pageHead, referenceColumns, table, view } from "../widgets.js";

/** @import { Mined } from "../contents.js" */
/** @import { Context, View } from "../router.js" */
/** @import { Between } from "../pages.js" */
/** @import { Column } from "../widgets.js" */

/** @typedef {Omit<Mined, "timestamp"> & { timestamp?: bigint }} Row */
/**
 * `head` is the latest block that was looked at for it.
 * @typedef {Between & { items: Row[], total: bigint | null, searched?: { from: bigint, to: bigint }, head?: bigint }} Listed
 */

const FILTERS = ["account", "direction", "with", "reference", "from", "to"];
const DIRECTIONS = { "": "Sent or received", out: "Sent", in: "Received" };

/** @type {(items: Row[]) => Column<Row>[]} */
const columns = (items) => [
    ["Transaction", (tx) => hashLink("tx", tx.txHash)],
    ["Block", (tx) => blockLink(tx.blockHeight)],
    ["Age", (tx) => tx.timestamp !== undefined && age(tx.timestamp)],
    ["From", (tx) => accountLink(tx.from)],
    ["To", (tx) => accountLink(tx.to)],
    ...referenceColumns(items),
    ["Amount (coins)", (tx) => bareAmount(tx.value), "end"],
];

/**
 * The height that a filter names; null without one, and for what is no height.
 * @param {URLSearchParams} query
 * @param {"from" | "to"} name
 */
function heightIn(query, name) {
    const text = query.get(name) ?? "";
    return /^\d{1,18}$/.test(text) ? BigInt(text) : null;
}

/**
 * @param {Context} context
 * @returns {Promise<Listed>}
 */
async function accountPage({ route: { query }, live, signal }) {
    const asked = {
        direction: query.get("direction"),
        counterparty: query.get("with"),
        reference: query.get("reference"),
        fromHeight: query.get("from"),
        toHeight: query.get("to"),
        after: query.get("after"),
        before: query.get("before"),
        limit: PAGE,
    };
    const page = await listHistory(query.get("account") ?? "", asked, signal);
    const times = await blockTimes(page.items, live, signal);
    const items = page.items.map((tx) => ({ ...tx, timestamp: times.get(tx.blockHeight) }));
    const from = heightIn(query, "from") ?? 0n;
    return { ...page, items, oldest: from > page.oldest ? from : page.oldest };
}

/**
 * @param {Context} context
 * @returns {Promise<Listed>}
 */
async function chainPage({ route: { query }, signal }) {
    const { items: [latest], total } = await listBlocks({ limit: 1 }, signal);
    const head = latest.blockHeight;
    const [base, from, to] = [head - total + 1n, heightIn(query, "from") ?? 0n, heightIn(query, "to") ?? head];
    const heights = { from: from > base ? from : base, to: to < head ? to : head };
    const before = cursorOf(query.get("before"));
    const page = before
        ? await walkUp(heights, before, PAGE, signal)
        : await walkDown(heights, cursorOf(query.get("after")), PAGE, signal);
    return { ...page, total: null, oldest: heights.from, head };
}

/**
 * A field that may be left empty.
 * @param {string} id
 * @param {string} label
 * @param {import("../dom.js").Attributes} attributes
 */
const optional = (id, label, attributes) => field(id, label, h("input", { name: id, autocomplete: "off", ...attributes }));

/**
 * @param {URLSearchParams} query
 */
function filterForm(query) {
    const hint = "Address or name. Empty: the whole chain.";
    const account = addressField("account", "Account", query.get("account") ?? "", hint, { isOptional: true });
    const other = addressField("with", "Other account", query.get("with") ?? "", "", { isOptional: true });
    const direction = field(
        "direction",
        "Direction",
        h(
            "select",
            { name: "direction" },
            Object.entries(DIRECTIONS).map(([value, text]) =>
                h("option", { value, selected: value === (query.get("direction") ?? "") }, text),
            ),
        ),
    );
    const reference = optional("reference", "Reference", { value: query.get("reference") ?? "", dir: "auto" });
    const height = { inputmode: "numeric", pattern: "[0-9]{1,15}", title: "The height of a block" };
    const from = optional("from", "From block", { ...height, value: query.get("from") ?? "" });
    const to = optional("to", "To block", { ...height, value: query.get("to") ?? "" });
    /** @param {SubmitEvent} event */
    const apply = (event) => {
        event.preventDefault();
        const [named, counterparty] = [account.read(), other.read()];
        if (named === null || counterparty === null) return;
        const needed = counterparty || direction.control.value || reference.control.value;
        if (needed && !named) {
            account.complain("Direction, other account and reference need an account.");
            account.control.focus();
            return;
        }
        location.hash = href("/txs", {
            account: named,
            direction: direction.control.value,
            with: counterparty,
            reference: reference.control.value,
            from: from.control.value,
            to: to.control.value,
        });
    };
    return h(
        "form",
        { class: "filters", onsubmit: apply, "aria-label": "Filters" },
        [account, direction, other, reference, from, to].map(({ element }) => element),
        h(
            "p",
            { class: "actions" },
            h("button", { class: "button main" }, "Filter"),
            FILTERS.some((name) => query.has(name)) && h("a", { class: "button", href: "#/txs" }, "Clear"),
        ),
    );
}

/**
 * @param {Listed} page
 * @param {Context} context
 */
function nothingFound({ searched, after }, { route }) {
    if (searched && after !== null) {
        return `Blocks ${grouped(searched.from)} to ${grouped(searched.to)} hold no transactions. Older ones may.`;
    }
    if (route.query.has("before")) return "There are no newer transactions.";
    return FILTERS.some((name) => route.query.has(name)) ? "No transaction fits the filters." : "No transactions yet.";
}

/**
 * @param {bigint} shownHead
 * @param {Context} context
 */
function newBlocksNotice(shownHead, { live, signal, again }) {
    const notice = freshNotice(again);
    const update = () => {
        const fresh = live.blocks.filter((block) => block.blockHeight > shownHead);
        const count = fresh.reduce((sum, block) => sum + block.transactionCount, 0n);
        notice.show(count > 0n ? `Show ${counted(count, "new transaction")}` : "");
    };
    live.on("blocks", update, signal);
    update();
    return notice.element;
}

/** @type {View} */
export async function transactionsView(context) {
    const { route, live } = context;
    await live.loaded;
    const { query } = route;
    const page = knownEnd(route, await (query.has("account") ? accountPage(context) : chainPage(context)));
    const first = firstNumber(route, page);
    const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name)]));
    const account = query.get("account");
    const isFirst = !query.has("after") && !query.has("before");
    const isFiltered = FILTERS.some((name) => query.has(name));
    return view(
        "Transactions",
        pageHead(
            "Transactions",
            h("p", null, account ? ["Of ", accountLink(checksummed(account))] : "Of the whole chain"),
            isFirst && !isFiltered && newBlocksNotice(page.head ?? live.head, context),
        ),
        card(null, h("details", { class: "filter", open: isFiltered }, h("summary", null, "Filters"), filterForm(query))),
        card(
            null,
            table("Confirmed transactions, newest first", columns(page.items), page.items, nothingFound(page, context)),
            h("p", { class: "page-number" }, rangeWords(first, page, page.total)),
            cursorPager("Pages of transactions", "/txs", filters, page, first),
        ),
    );
}
