// All blocks, latest first, in pages. A page is named by the height that it starts below, so it never shifts.

import { listBlocks, pause } from "../api.js";
import { grouped } from "../amounts.js";
import { addUpBlocks } from "../contents.js";
import { fill, h } from "../dom.js";
import { findProposers } from "../proposers.js";
import { href } from "../routes.js";
import {
    BARS_MEAN,
    blockAge,
    blockLink,
    card,
    counted,
    feesOf,
    freshNotice,
    fullness,
    hashLink,
    pageHead,
    pager,
    table,
    transactionsColumn,
    valueOf,
    view,
} from "../widgets.js";

/** @import { Header, CountedPage } from "../api.js" */
/** @import { Proposers } from "../proposers.js" */
/** @import { Context, View } from "../router.js" */
/** @import { Column } from "../widgets.js" */

const PAGE = 25n;
const PATIENCE_MS = 400;

/**
 * Without a column of proposers where no node names any.
 * @param {Proposers} proposers
 * @param {Header[]} blocks
 * @returns {Column<Header>[]}
 */
const columns = (proposers, blocks) => [
    ["Block", (block) => blockLink(block.blockHeight)],
    ["Hash", (block) => hashLink("block", block.hash), "wide"],
    transactionsColumn(blocks),
    ["Gas used", fullness, "end"],
    ["Value (coins)", valueOf, "end"],
    ["Fees (coins)", feesOf, "end wide"],
    ...proposers.columns(blocks),
    ["Age", blockAge, "end"],
];

function jumpForm() {
    const field = h("input", {
        id: "jump",
        name: "height",
        inputmode: "numeric",
        pattern: "[0-9]+",
        required: true,
        placeholder: "Height",
    });
    /** @param {SubmitEvent} event */
    const jump = (event) => {
        event.preventDefault();
        location.hash = href("/blocks", { after: BigInt(field.value) + 1n });
    };
    return h(
        "form",
        { class: "inline", onsubmit: jump },
        h("label", { for: "jump" }, "Go to"),
        field,
        h("button", { class: "button" }, "Show"),
    );
}

/**
 * @param {bigint} shownHead
 * @param {Context} context
 */
function newBlocksNotice(shownHead, { live, signal, again }) {
    const notice = freshNotice(again);
    const update = () => {
        const count = live.blocks[0].blockHeight - shownHead;
        notice.show(count > 0n ? `Show ${counted(count, "new block")}` : "");
    };
    live.on("blocks", update, signal);
    update();
    return notice.element;
}

/**
 * @param {CountedPage<Header>} page
 * @param {bigint} head
 * @returns {[text: string, target: string | null][]}
 */
function links({ items, after, total }, head) {
    const [top, bottom] = [items[0].blockHeight, items[items.length - 1].blockHeight];
    // A node may have removed the oldest ones.
    const base = head - total + 1n;
    const above = top + PAGE + 1n;
    const newer = top >= head ? null : href("/blocks", { after: above > head ? null : above });
    return [
        ["Latest", newer && "#/blocks"],
        ["Newer", newer],
        ["Older", after && href("/blocks", { after: bottom })],
        ["Oldest", after && href("/blocks", { after: base + PAGE })],
    ];
}

/** @type {View} */
export async function blocksView(context) {
    const { route, live, signal } = context;
    await live.loaded;
    const start = route.query.get("after");
    const page = await listBlocks({ limit: PAGE, after: start }, signal);
    const { items, total } = page;
    const proposers = await findProposers(live.chain, signal);
    const listed = h("div", { class: "listed" });
    const showList = () =>
        fill(
            listed,
            table("Blocks, latest first", columns(proposers, items), items, "There are no blocks below that height."),
        );
    showList();
    // Mostly there at once, and then nothing moves; large blocks are not waited for.
    await Promise.race([addUpBlocks(items, showList, signal).catch(() => {}), pause(PATIENCE_MS, signal)]);
    const head = live.blocks[0].blockHeight;
    const isFirst = !start;
    const shown = items.length
        ? `Heights ${grouped(items[items.length - 1].blockHeight)} to ${grouped(items[0].blockHeight)}`
        : "No blocks here";
    return view(
        "Blocks",
        pageHead(
            "Blocks",
            h("p", null, `${shown}, ${counted(total, "block")} in all`),
            isFirst && items.length > 0 && newBlocksNotice(items[0].blockHeight, context),
            jumpForm(),
        ),
        card(
            null,
            listed,
            items.length > 0 && pager("Pages of blocks", ...links(page, head)),
            items.length > 0 && h("p", { class: "hint" }, `${BARS_MEAN} Gas used is of the block's gas limit.`),
        ),
    );
}
