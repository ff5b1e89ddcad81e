// The pending transactions in mining order. The first page follows the node.

import { listMempool } from "../api.js";
import { grouped } from "../amounts.js";
import { fill, h } from "../dom.js";
import { paced } from "../live.js";
import { nonceColumn } from "../columns.js";
import { href } from "../routes.js";
import {
    age,
    bareAmount,
    card,
    counted,
    pageHead,
    pager,
    referenceColumns,
    table,
    transactionColumns,
    view,
} from "../widgets.js";

/** @import { CountedPage, MempoolItem } from "../api.js" */
/** @import { Context, View } from "../router.js" */
/** @import { Column } from "../widgets.js" */

const PAGE = 50;

/** @type {Column<MempoolItem>[]} */
const ownColumns = [
    nonceColumn,
    ["Gas price (gwei)", (tx) => bareAmount(tx.gasPrice, "gwei"), "end"],
    ["Received", (tx) => age(tx.receivedAt), "end wide"],
];

/** @type {(page: CountedPage<MempoolItem>, start: string | null) => HTMLElement} */
const listCard = ({ items, after, total }, start) =>
    card(
        counted(total, "transaction"),
        table(
            "Pending transactions in mining order",
            transactionColumns(...referenceColumns(items), ...ownColumns),
            items,
            "The mempool is empty: every transaction is in a block.",
        ),
        (start || after) &&
            pager(
                "Pages of the mempool",
                ["First page", start && "#/mempool"],
                ["Next page", after && href("/mempool", { after })],
            ),
    );

/** @typedef {{ key: string, list: HTMLElement }} Made The key is the same as long as the list is. */

/**
 * A list that is read again with every change, unless it is paused, or somebody is at one of its links.
 * @param {HTMLElement} place
 * @param {string} key
 * @param {() => Promise<Made>} make
 * @param {Context} context
 */
function liveList(place, key, make, { live, signal }) {
    let shownKey = key;
    const button = h("button", { type: "button", class: "button", "aria-pressed": "false" }, "Pause");
    const isPaused = () => button.getAttribute("aria-pressed") === "true";
    const read = async () => {
        if (isPaused() || place.contains(document.activeElement)) return;
        const made = await make();
        if (made.key === shownKey || place.contains(document.activeElement)) return;
        shownKey = made.key;
        fill(place, made.list);
    };
    const follow = paced(read, 0, signal);
    button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(!isPaused()));
        follow();
    });
    live.on("chain", follow, signal);
    return h("div", { class: "inline" }, button);
}

/** @type {View} */
export async function mempoolView(context) {
    const { route, live, signal, again } = context;
    await live.loaded;
    const start = route.query.get("after");
    const make = async () => {
        const page = await listMempool({ limit: PAGE, after: start }, signal);
        const parts = [page.total, ...page.items.map((tx) => tx.txHash + (tx.queuedReason ?? ""))];
        return { key: parts.join(), list: listCard(page, start) };
    };
    const state = h("p");
    const showState = () => {
        const { pending, queued, limit } = live.chain.mempool;
        fill(state, `${grouped(pending)} pending, ${grouped(queued)} queued, room for ${grouped(limit)}`);
    };
    live.on("chain", showState, signal);
    showState();
    const { key, list } = await make();
    const place = h("div", null, list);
    const readAgain = h("button", { type: "button", class: "link", onclick: again }, "Read it again");
    return view(
        "Mempool",
        pageHead("Mempool", state, !start && liveList(place, key, make, context)),
        place,
        start
            ? h("p", { class: "hint" }, "This page is as of when you opened it. ", readAgain)
            : h("p", { class: "hint" }, "The list follows the node. A queued transaction waits for a missing nonce."),
    );
}
