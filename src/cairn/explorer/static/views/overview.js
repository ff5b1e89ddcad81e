// The chain now: its latest blocks and transactions, and on an empty dev chain how to begin.

import { devAccounts } from "../api.js";
import { formatAmount, grouped } from "../amounts.js";
import { BarChart } from "../chart.js";
import { addUpBlocks, newestTransactions } from "../contents.js";
import { fill, h } from "../dom.js";
import { ownChain } from "../genesis.js";
import { RECENT } from "../live.js";
import { measuredBlockTime } from "../pace.js";
import { href } from "../routes.js";
import { Cairn } from "../stones.js";
import { devTable, firstPayment, snippetsCard } from "../welcome.js";
import {
    accountLink,
    age,
    amount,
    bareAmount,
    BARS_MEAN,
    blockAge,
    blockLink,
    card,
    counted,
    hashLink,
    shortened,
    table,
    transactionsColumn,
    valueOf,
    view,
} from "../widgets.js";

/** @import { Chain, Header } from "../api.js" */
/** @import { Mined } from "../contents.js" */
/** @import { Child } from "../dom.js" */
/** @import { Live } from "../live.js" */
/** @import { BlockTime } from "../pace.js" */
/** @import { Context, View } from "../router.js" */

const LISTED = 8;

/**
 * A figure, and the view that says more about it.
 * @param {string} name
 * @param {string} [target]
 */
function stat(name, target) {
    const [value, note] = [h("dd"), h("dd", { class: "note" })];
    /**
     * @param {Child} content
     * @param {string} counts What the figure counts.
     */
    const show = (content, counts) => {
        fill(value, content);
        note.textContent = counts;
    };
    const title = target ? h("a", { href: target }, name) : name;
    return { element: h("div", null, h("dt", null, title), value, note), show };
}

function makeStats() {
    return {
        pending: stat("Pending", "#/mempool"),
        rate: stat("Transactions / s"),
        interval: stat("Block time"),
        gasPrice: stat("Gas price"),
        supply: stat("Supply", "#/accounts"),
        chain: stat("Chain", "#/status"),
    };
}

/**
 * The genesis block is as old as the chain's rules, not as its blocks: it says nothing of their pace.
 * @param {Header[]} blocks
 */
const minedBlocks = (blocks) => blocks.filter((block) => block.blockHeight > 0n);

/**
 * Transactions per second up to this moment: a chain that rests must not look busy.
 * @param {Header[]} mined
 */
function rateOf(mined) {
    const [newest, oldest] = [mined[0], mined.at(-1)];
    if (!newest || !oldest || newest.timestamp === oldest.timestamp) return 0;
    const count = mined.slice(0, -1).reduce((sum, block) => sum + Number(block.transactionCount), 0);
    // The clocks of a dev chain may be ahead of this one.
    return count / Math.max(Number(newest.timestamp - oldest.timestamp), Date.now() / 1_000 - Number(oldest.timestamp));
}

/**
 * What the chain is set to, while something waits for a block.
 * @param {Chain} chain
 */
function setBlockTime({ engine, blockTime }) {
    if (engine !== "embedded") return `${blockTime} s and a vote`;
    return blockTime === 0 ? "at once" : `${blockTime} s`;
}

/**
 * How often blocks came, which depends on how often somebody paid.
 * @param {BlockTime | null} time
 */
function measuredNote(time) {
    if (time === null) return "Not measured yet: that takes three blocks with transactions, one after the other";
    const left = time.pauses > 0 ? `; ${counted(time.pauses, "pause")} left out` : "";
    const kind = time.isMean ? "mean" : "median";
    return `Blocks with transactions came after ${brief(time.seconds)} s (${kind} of ${time.intervals} intervals${left})`;
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
    const mined = minedBlocks(blocks);
    stats.pending.show(grouped(chain.mempool.pending), `${grouped(chain.mempool.queued)} queued`);
    const since = mined.length === 0 ? "No blocks yet" : `Over the last ${counted(mined.length, "block")}, until now`;
    stats.rate.show(brief(rateOf(mined)), since);
    stats.interval.show(setBlockTime(chain), measuredNote(measuredBlockTime(mined)));
    stats.gasPrice.show(`${formatAmount(chain.gasPrice, "gwei")} gwei`, "A transfer uses 21,000 gas");
    stats.supply.element.hidden = chain.supply === undefined;
    if (chain.supply !== undefined) stats.supply.show(amount(chain.supply), "All balances together");
    stats.chain.show(chain.chainId.toString(), `Engine: ${chain.engine}`);
}

function makeCharts() {
    const transactions = new BarChart({
        title: "Transactions per block",
        most: RECENT,
        describe: (value) => `${grouped(value)} transaction${value === 1 ? "" : "s"}`,
    });
    const times = new BarChart({
        title: "Seconds from block to block",
        most: RECENT,
        describe: (value) => `${grouped(value)} s`,
    });
    /** @param {Header[]} blocks */
    const show = (blocks) => {
        const mined = minedBlocks(blocks);
        transactions.show(
            mined.map(({ blockHeight, timestamp, transactionCount }) => ({
                height: blockHeight,
                timestamp,
                value: Number(transactionCount),
            })),
        );
        times.show(
            mined.slice(0, -1).map(({ blockHeight, timestamp }, index) => ({
                height: blockHeight,
                timestamp,
                value: Number(timestamp - mined[index + 1].timestamp),
            })),
            measuredBlockTime(mined)?.longest,
        );
    };
    return { element: h("div", { class: "columns" }, transactions.element, times.element), show };
}

/** @param {Header[]} blocks */
const blockTable = (blocks) =>
    table(
        "The latest blocks",
        [
            ["Block", (block) => blockLink(block.blockHeight)],
            transactionsColumn(blocks),
            ["Value (coins)", valueOf, "end"],
            ["Age", blockAge, "end"],
        ],
        blocks,
    );

/** @param {Mined[]} items */
const transactionTable = (items) =>
    table(
        "The latest transactions",
        [
            ["Transaction", (tx) => hashLink("tx", tx.txHash)],
            ["From", (tx) => accountLink(tx.from)],
            ["To", (tx) => accountLink(tx.to)],
            ["Amount (coins)", (tx) => bareAmount(tx.value), "end"],
            ["Age", (tx) => age(tx.timestamp), "end"],
        ],
        items,
        `The last ${RECENT} blocks hold no transactions.`,
    );

function makeHead() {
    const height = h("span", { class: "head-height number" });
    const detail = h("p", { class: "head-detail" });
    /** @param {Live} live */
    const show = ({ blocks: [latest] }) => {
        fill(height, grouped(latest.blockHeight));
        const link = h(
            "a",
            { href: href(`/block/${latest.blockHeight}`), class: "code", title: latest.hash },
            shortened(latest.hash, 8),
        );
        const isGenesis = latest.blockHeight === 0n;
        const when = isGenesis ? ["The genesis block. No transactions yet"] : [age(latest.timestamp), " · "];
        const count = isGenesis ? null : counted(latest.transactionCount, "transaction");
        fill(detail, when, count, " · ", link);
    };
    return {
        element: h(
            "div",
            null,
            h("h1", { class: "head" }, h("span", { class: "eyebrow" }, "Latest block"), " ", height),
            detail,
        ),
        show,
    };
}

/** Lists and charts of what was mined; hidden as long as nothing was. */
function makeActivity() {
    const charts = makeCharts();
    const [latest, transactions] = [h("div", { class: "list" }), h("div", { class: "list" })];
    const element = h(
        "div",
        { class: "view" },
        charts.element,
        h(
            "div",
            { class: "columns lists" },
            card(h("a", { href: "#/blocks" }, "Blocks"), latest, h("p", { class: "hint" }, BARS_MEAN)),
            card(h("a", { href: "#/txs" }, "Transactions"), transactions),
        ),
    );
    let shownHeight = -1n;
    /**
     * @param {Header[]} blocks
     * @param {AbortSignal} signal
     */
    const show = async (blocks, signal) => {
        element.hidden = minedBlocks(blocks).length === 0;
        if (element.hidden) return;
        charts.show(blocks);
        const listed = blocks.slice(0, LISTED);
        const [items] = await Promise.all([
            newestTransactions(blocks, LISTED, signal),
            addUpBlocks(listed, () => {}, signal),
        ]);
        // An answer about older blocks may come after one about newer ones.
        if (blocks[0].blockHeight < shownHeight) return;
        shownHeight = blocks[0].blockHeight;
        fill(latest, blockTable(listed));
        fill(transactions, transactionTable(items));
    };
    return { element, show };
}

/**
 * On a chain without blocks: everything that one needs to make the first. With blocks: a way there.
 * @param {Context} context
 */
async function makeWelcome(context) {
    const dev = await devAccounts(context.signal);
    if (dev.length === 0) return ownChain(context);
    if (context.live.chain.head.blockHeight > 0n) {
        return h(
            "p",
            { class: "card hint" },
            `This is a dev chain with ${dev.length} funded accounts. `,
            h("a", { href: "#/accounts" }, "Accounts, and code for curl, Python and ethers"),
        );
    }
    return h(
        "div",
        { class: "view" },
        h(
            "div",
            { class: "welcome" },
            h("h2", null, "Welcome to your dev chain"),
            h("p", null, `It has ${dev.length} accounts with coins. Their keys are public: use it only for tests.`),
        ),
        h("div", { class: "columns" }, firstPayment(dev, context.signal), snippetsCard(dev)),
        card("Accounts", await devTable(dev, context)),
    );
}

/** @type {View} */
export async function overviewView(context) {
    const { live, signal } = context;
    await live.loaded;
    const [head, stats, activity] = [makeHead(), makeStats(), makeActivity()];
    const cairn = new Cairn((block) => (block.transactionCount ? `${grouped(block.transactionCount)} tx` : "empty"));
    const meaning = "Each stone is a block, the newest on top. The wider it is, the more transactions it holds.";
    const stones = h("div", { class: "stones" }, cairn.element, h("p", { class: "hint" }, meaning));
    const welcome = await makeWelcome(context);

    const hero = h("section", { class: "hero card" });
    const showBlocks = () => {
        // A small screen has no room for a single stone.
        hero.classList.toggle("lone", minedBlocks(live.blocks).length === 0);
        head.show(live);
        cairn.show(live.blocks);
        return activity.show(live.blocks, signal).catch(() => {});
    };
    live.on("blocks", showBlocks, signal);
    live.on("chain", () => showStats(stats, live), signal);
    showStats(stats, live);
    await showBlocks();

    const figures = h(
        "dl",
        { class: "stats" },
        Object.values(stats).map((each) => each.element),
    );
    return view(
        "Overview",
        fill(hero, h("div", { class: "hero-text" }, head.element, figures), stones),
        welcome,
        activity.element,
    );
}
