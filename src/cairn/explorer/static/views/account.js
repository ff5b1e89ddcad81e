// One account: what it owns, what it waits for, and everything that it sent or received.

import { devAccounts, getAccount, listBlocks, listHistory, listMempool } from "../api.js";
import { checksummed } from "../addresses.js";
import { grouped } from "../amounts.js";
import { devName } from "../devnames.js";
import { h } from "../dom.js";
import { nextNonces, nonceColumn } from "../queue.js";
import { href } from "../routes.js";
import { avatar } from "../stones.js";
import {
    accountLink,
    age,
    amount,
    badge,
    blockLink,
    card,
    copyable,
    counted,
    facts,
    freshNotice,
    hashLink,
    pager,
    table,
    transactionColumns,
} from "../widgets.js";

/** @import { Account, Confirmed } from "../api.js" */
/** @import { Live } from "../live.js" */
/** @import { Context, View } from "../router.js" */
/** @import { Column } from "../widgets.js" */

const PAGE = 25;
const PENDING_SHOWN = 10;

/** @type {(address: string, times: Map<bigint, bigint>) => Column<Confirmed>[]} */
const historyColumns = (address, times) => [
    ["Transaction", (tx) => hashLink("tx", tx.txHash)],
    ["Block", (tx) => blockLink(tx.blockHeight)],
    ["Age", (tx) => ageOf(times.get(tx.blockHeight))],
    ["Direction", (tx) => direction(tx, address)],
    ["With", (tx) => accountLink(tx.from === address ? tx.to : tx.from)],
    ["Amount", (tx) => amount(tx.value), "end"],
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
 * When the blocks of these transactions were made, by height; a node may have removed some of them.
 * @param {Confirmed[]} transactions
 * @param {Live} live
 * @param {AbortSignal} signal
 */
async function blockTimes(transactions, live, signal) {
    const times = new Map(live.blocks.map((block) => [block.blockHeight, block.timestamp]));
    const heights = new Set(transactions.map((tx) => tx.blockHeight).filter((height) => !times.has(height)));
    /** @param {bigint} height */
    const look = async (height) => {
        const { items } = await listBlocks({ after: height + 1n, limit: 1 }, signal);
        if (items[0]?.blockHeight === height) times.set(height, items[0].timestamp);
    };
    await Promise.all([...heights].map(look));
    return times;
}

/**
 * @param {string} address
 * @param {AbortSignal} signal
 */
async function pendingCard(address, signal) {
    const { items, total } = await listMempool({ from: address, limit: PENDING_SHOWN }, signal);
    if (items.length === 0) return null;
    const shown = total > BigInt(items.length) ? `, the first ${items.length} shown` : "";
    return card(
        `${grouped(total)} waiting${shown}`,
        table(
            "Pending transactions of the account",
            transactionColumns(nonceColumn(await nextNonces(items, signal))),
            items,
        ),
    );
}

/**
 * Offers to read the account anew once a block has changed it.
 * @param {Account} shown
 * @param {Context} context
 */
function changeNotice(shown, { live, signal, again }) {
    const notice = freshNotice(again);
    const look = async () => {
        const { balance, nonce } = await getAccount(shown.address, signal).catch(() => shown);
        if (balance !== shown.balance || nonce !== shown.nonce) notice.show("This account has changed: show it");
    };
    live.on("blocks", look, signal);
    return notice.element;
}

/** @type {View} */
export async function accountView(context) {
    const { route, live, signal } = context;
    await live.loaded;
    const start = route.query.get("after");
    const account = await getAccount(route.argument, signal);
    const { address } = account;
    const [history, pending, dev] = await Promise.all([
        listHistory(address, { limit: PAGE, after: start }, signal),
        pendingCard(address, signal),
        devAccounts(signal),
    ]);
    const times = await blockTimes(history.items, live, signal);
    const name = devName(dev, address);
    const shown = checksummed(address);
    const waiting = account.pendingNonce - account.nonce;
    return {
        title: `Account ${shown.slice(0, 10)}…`,
        content: h(
            "div",
            { class: "view" },
            h(
                "div",
                { class: "page-head" },
                h("h1", { class: "with-avatar" }, avatar(address, 44), "Account"),
                changeNotice(account, context),
                h(
                    "nav",
                    { class: "pager", "aria-label": "Actions" },
                    h("a", { class: "button", href: href("/send", { to: shown }) }, "Send to it"),
                ),
            ),
            card(
                null,
                facts(
                    name !== null && ["Name", name],
                    ["Address", copyable(shown, "address")],
                    ["Balance", h("span", { class: "balance" }, amount(account.balance))],
                    [
                        "Transactions sent",
                        [grouped(account.nonce), waiting > 0n && ` and ${counted(waiting, "pending one")}`],
                    ],
                ),
            ),
            !start && pending,
            card(
                "History",
                table(
                    "Confirmed transactions, newest first",
                    historyColumns(address, times),
                    history.items,
                    "This account has sent and received nothing yet.",
                ),
                (start || history.after) &&
                    pager(
                        "Pages of the history",
                        ["Newest", start && href(`/account/${shown}`)],
                        ["Older", history.after && href(`/account/${shown}`, { after: history.after })],
                    ),
            ),
        ),
    };
}
