// One block: what it holds, and whether its hash and its transactions root are what they claim to be.

import { getBlock, getTransaction } from "../api.js";
import { grouped } from "../amounts.js";
import { breathe, fill, h } from "../dom.js";
import { headerHash, transactionsRoot } from "../proof.js";
import { href } from "../routes.js";
import {
    accountLink,
    age,
    badge,
    card,
    copyable,
    counted,
    dateOf,
    facts,
    hashLink,
    pager,
    table,
    transactionColumns,
} from "../widgets.js";

/** @import { Block } from "../api.js" */
/** @import { View } from "../router.js" */

const PAGE = 25;

/**
 * Whether the computation gives what is claimed; what cannot even be computed does not.
 * @param {string} claimed
 * @param {() => string | Promise<string>} compute
 */
async function gives(claimed, compute) {
    try {
        return (await compute()) === claimed;
    } catch {
        return false;
    }
}

/**
 * Computes both hashes anew from the block itself, and says whether they are the same.
 * @param {Block} block
 * @param {HTMLElement} place
 */
async function verify(block, place) {
    const hashHolds = await gives(block.hash, () => headerHash(block));
    const rootHolds = await gives(block.transactionsRoot, () => transactionsRoot(block.transactions, breathe));
    fill(
        place,
        badge(hashHolds ? "confirmed" : "failed", hashHolds ? "Hash verified" : "Hash is wrong"),
        " ",
        badge(rootHolds ? "confirmed" : "failed", rootHolds ? "Transaction hashes verified" : "Transactions are wrong"),
    );
}

/**
 * @param {Block} block
 * @param {bigint} head
 */
function neighbours(block, head) {
    const height = block.blockHeight;
    return pager(
        "Neighbours",
        ["Block before", height > 0n ? href(`/block/${height - 1n}`) : null],
        ["Block after", height < head ? href(`/block/${height + 1n}`) : null],
    );
}

/**
 * @param {Block} block
 * @param {number} page
 * @param {number} pages
 * @param {AbortSignal} signal
 */
async function transactionsCard(block, page, pages, signal) {
    const first = (page - 1) * PAGE;
    const look = block.transactions.slice(first, first + PAGE).map(async (hash, index) => {
        const tx = await getTransaction(hash, signal);
        return { ...tx, place: first + index };
    });
    const items = await Promise.all(look);
    /** @param {number} number */
    const target = (number) => (number < 1 || number > pages ? null : href(`/block/${block.hash}`, { page: number }));
    return card(
        counted(block.transactions.length, "transaction"),
        table(
            "Transactions of the block, in their order",
            [["#", (tx) => grouped(tx.place), "number"], ...transactionColumns()],
            items,
            "An empty block.",
        ),
        pages > 1 && h("p", { class: "page-number" }, `Page ${grouped(page)} of ${grouped(pages)}`),
        pages > 1 &&
            pager(
                "Pages of transactions",
                ["First", page > 1 && target(1)],
                ["Before", target(page - 1)],
                ["After", target(page + 1)],
                ["Last", page < pages && target(pages)],
            ),
    );
}

/** @type {View} */
export async function blockView({ route, live, signal }) {
    await live.loaded;
    const block = await getBlock(route.argument, signal);
    const pages = Math.max(1, Math.ceil(block.transactions.length / PAGE));
    const page = Math.min(pages, Math.max(1, Number.parseInt(route.query.get("page") ?? "", 10) || 1));
    const verdict = h("div", { class: "verdict" }, badge("pending", "Verifying"));
    const listed = await transactionsCard(block, page, pages, signal);
    verify(block, verdict);
    return {
        title: `Block ${grouped(block.blockHeight)}`,
        content: h(
            "div",
            { class: "view" },
            h(
                "div",
                { class: "page-head" },
                h("h1", null, "Block ", h("span", { class: "number" }, grouped(block.blockHeight))),
                verdict,
                neighbours(block, live.blocks[0].blockHeight),
            ),
            card(
                null,
                facts(
                    ["Hash", copyable(block.hash, "block hash")],
                    [
                        "Previous block",
                        block.blockHeight > 0n
                            ? hashLink("block", block.previousHash)
                            : "None: this is the genesis block",
                    ],
                    ["Time", [dateOf(block.timestamp).toLocaleString(), " (", age(block.timestamp), ")"]],
                    ["Gas used", grouped(block.gasUsed)],
                    ["Proposer", accountLink(block.proposer)],
                    ["Transactions root", h("span", { class: "code whole" }, block.transactionsRoot)],
                    ["State root", h("span", { class: "code whole" }, block.stateRoot)],
                    ["Chain", block.chainId.toString()],
                ),
            ),
            listed,
        ),
    };
}
