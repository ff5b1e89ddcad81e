// The chain as it is right now.

import { listMempool } from "../api.js";
import { formatAmount, grouped } from "../amounts.js";
import { BarChart } from "../chart.js";
import { fill, h } from "../dom.js";
import { RECENT } from "../live.js";
import { missingNonce, nextNonces } from "../queue.js";
import { href } from "../routes.js";
import { Cairn } from "../stones.js";
import { accountLink, age, amount, blockLink, card, counted, hashLink, shortened, table } from "../widgets.js";

/** @import { BlockSummary, Chain, Listed } from "../api.js" */
/** @import { Child } from "../dom.js" */
/** @import { Live } from "../live.js" */
/** @import { View } from "../router.js" */

const LISTED = 8;

/** @param {string} name */
function stat(name) {
    const value = h("dd");
    /** @param {Child[]} content */
    const show = (...content) => fill(value, ...content);
    return { element: h("div", null, h("dt", null, name), value), show };
}

function makeStats() {
    return {
        pending: stat("Pending"),
        queued: stat("Queued"),
        rate: stat("Transactions / s"),
        interval: stat("Block time"),
        gasPrice: stat("Gas price"),
        chain: stat("Chain"),
    };
}

/**
 * The genesis block is as old as the chain's rules, not as its blocks: it says nothing of their pace.
 * @param {BlockSummary[]} blocks
 */
const minedBlocks = (blocks) => blocks.filter((block) => block.blockHeight > 0n);

/**
 * Transactions and seconds for each block, up to this moment: a chain that rests must not look busy.
 * @param {BlockSummary[]} mined
 */
function pace(mined) {
    const [newest, oldest] = [mined[0], mined.at(-1)];
    if (!newest || !oldest || newest.timestamp === oldest.timestamp) return null;
    const [intervals, seconds] = [mined.length - 1, Number(newest.timestamp - oldest.timestamp)];
    const count = mined.slice(0, -1).reduce((sum, block) => sum + Number(block.transactionCount), 0);
    // The clocks of a dev chain may be ahead of this one.
    const soFar = Math.max(seconds, Date.now() / 1_000 - Number(oldest.timestamp));
    // The block that is awaited counts once it takes longer than the others did.
    return { rate: count / soFar, interval: Math.max(seconds / intervals, soFar / (intervals + 1)) };
}

/**
 * With no more digits than count.
 * @param {number} number
 */
const brief = (number) => (number < 100 ? number.toFixed(1) : grouped(Math.round(number)));

/**
 * @param {ReturnType<typeof makeStats>} stats
 * @param {Live} live
 */
function showStats(stats, { chain, blocks }) {
    const shown = pace(minedBlocks(blocks));
    stats.pending.show(grouped(chain.mempool.pending));
    stats.queued.show(grouped(chain.mempool.queued));
    stats.rate.show(shown ? brief(shown.rate) : "–");
    stats.interval.show(shown ? `${brief(shown.interval)} s` : "–");
    stats.gasPrice.show(`${formatAmount(chain.gasPrice, "gwei")} gwei`);
    stats.chain.show(chain.chainId.toString(), h("span", { class: "unit" }, ` ${chain.engine}`));
}

function makeCharts() {
    const transactions = new BarChart({
        title: "Transactions per block",
        slots: RECENT,
        describe: (value) => `${grouped(value)} transaction${value === 1 ? "" : "s"}`,
    });
    const times = new BarChart({
        title: "Seconds between blocks",
        slots: RECENT,
        describe: (value) => `${grouped(value)} s`,
    });
    /** @param {BlockSummary[]} blocks */
    const show = (blocks) => {
        transactions.show(
            blocks.map((block) => ({ height: block.blockHeight, value: Number(block.transactionCount) })),
        );
        const mined = minedBlocks(blocks);
        times.show(
            mined.slice(0, -1).map((block, index) => ({
                height: block.blockHeight,
                value: Number(block.timestamp - mined[index + 1].timestamp),
            })),
        );
    };
    return { element: h("div", { class: "columns" }, transactions.element, times.element), show };
}

/** @param {BlockSummary[]} blocks */
const blockTable = (blocks) =>
    table(
        "The newest blocks",
        [
            ["Block", (block) => blockLink(block.blockHeight)],
            ["Hash", (block) => hashLink("block", block.hash)],
            ["Transactions", (block) => grouped(block.transactionCount), "end"],
            ["Age", (block) => age(block.timestamp), "end"],
        ],
        blocks.slice(0, LISTED),
        "No block yet.",
    );

/**
 * The first of those that the next blocks can take; all others wait behind them in the list.
 * @param {Chain} chain
 * @param {AbortSignal} signal
 */
async function listMinable({ mempool }, signal) {
    const { items } = await listMempool({ limit: LISTED }, signal);
    if (!mempool.queued) return items;
    const next = await nextNonces(items, signal);
    return items.filter((tx) => missingNonce(tx, next) === null);
}

/** @type {(items: Listed[], queued: bigint) => HTMLElement} */
const pendingTable = (items, queued) =>
    table(
        "The transactions that will be mined next",
        [
            ["Transaction", (tx) => hashLink("tx", tx.txHash)],
            ["To", (tx) => accountLink(tx.to)],
            ["Amount", (tx) => amount(tx.value), "end"],
        ],
        items,
        queued
            ? "Nothing can be mined: what waits is behind a missing nonce."
            : "Nothing waits: every transaction is in a block.",
    );

function makeHead() {
    const height = h("span", { class: "head-height number" });
    const detail = h("p", { class: "head-detail" });
    /** @param {Live} live */
    const show = ({ blocks: [newest] }) => {
        fill(height, grouped(newest.blockHeight));
        const link = h(
            "a",
            { href: href(`/block/${newest.blockHeight}`), class: "code", title: newest.hash },
            shortened(newest.hash, 8),
        );
        fill(detail, age(newest.timestamp), " · ", counted(newest.transactionCount, "transaction"), " · ", link);
    };
    return {
        element: h(
            "div",
            null,
            h("h1", { class: "head" }, h("span", { class: "eyebrow" }, "Newest block"), " ", height),
            detail,
        ),
        show,
    };
}

/** @type {View} */
export async function overviewView({ live, signal }) {
    await live.loaded;
    const [head, stats, charts] = [makeHead(), makeStats(), makeCharts()];
    const cairn = new Cairn((block) => (block.transactionCount ? `${grouped(block.transactionCount)} tx` : "empty"));
    const [latest, waiting] = [h("div", { class: "list" }), h("div", { class: "list" })];

    const showBlocks = () => {
        head.show(live);
        cairn.show(live.blocks);
        charts.show(live.blocks);
        fill(latest, blockTable(live.blocks));
    };
    const showChain = async () => {
        showStats(stats, live);
        const { chain } = live;
        const items = await listMinable(chain, signal).catch(() => null);
        if (items) fill(waiting, pendingTable(items, chain.mempool.queued));
    };
    live.on("blocks", showBlocks, signal);
    live.on("chain", showChain, signal);
    showBlocks();
    await showChain();

    const figures = h(
        "dl",
        { class: "stats" },
        Object.values(stats).map((each) => each.element),
    );
    return {
        title: "Overview",
        content: h(
            "div",
            { class: "view overview" },
            h(
                "section",
                { class: "hero card" },
                h("div", { class: "hero-text" }, head.element, figures),
                cairn.element,
            ),
            charts.element,
            h(
                "div",
                { class: "columns" },
                card(h("a", { href: "#/blocks" }, "Blocks"), latest),
                card(h("a", { href: "#/mempool" }, "Mined next"), waiting),
            ),
        ),
    };
}
