// What waits to be mined, in the order in which it will be.

import { listMempool } from "../api.js";
import { formatAmount, grouped } from "../amounts.js";
import { fill, h } from "../dom.js";
import { nextNonces, nonceColumn } from "../queue.js";
import { href } from "../routes.js";
import { age, card, counted, pager, table, transactionColumns } from "../widgets.js";

/** @import { Waiting } from "../api.js" */
/** @import { NextNonces } from "../queue.js" */
/** @import { Column } from "../widgets.js" */
/** @import { View } from "../router.js" */

const PAGE = 50;

/** @type {(next: NextNonces) => Column<Waiting>[]} */
const ownColumns = (next) => [
    nonceColumn(next),
    ["Gas price", (tx) => `${formatAmount(tx.gasPrice, "gwei")} gwei`, "end"],
    ["Waiting since", (tx) => age(tx.receivedAt), "end"],
];

/** @type {View} */
export async function mempoolView({ route, live, signal, again }) {
    await live.loaded;
    const start = route.query.get("after");
    const { items, after, total } = await listMempool({ limit: PAGE, after: start }, signal);
    const next = await nextNonces(live.chain.mempool.queued ? items : [], signal);
    const state = h("p");
    const showState = () => {
        const { pending, queued, limit } = live.chain.mempool;
        fill(
            state,
            `${grouped(pending)} can be mined, ${grouped(queued)} wait for a missing nonce, room for ${grouped(limit)}`,
        );
    };
    live.on("chain", showState, signal);
    showState();
    return {
        title: "Mempool",
        content: h(
            "div",
            { class: "view" },
            h("div", { class: "page-head" }, h("h1", null, "Mempool"), state),
            card(
                counted(total, "transaction"),
                table(
                    "Pending transactions, next to be mined first",
                    transactionColumns(...ownColumns(next)),
                    items,
                    "Nothing waits: every transaction is in a block.",
                ),
                (start || after) &&
                    pager(
                        "Pages of the mempool",
                        ["First page", start && "#/mempool"],
                        ["Next page", after && href("/mempool", { after })],
                    ),
            ),
            h(
                "p",
                { class: "hint" },
                "The list is as of when you opened it. ",
                h("button", { type: "button", class: "link", onclick: again }, "Read it again"),
            ),
        ),
    };
}
