// One block: what it holds, and whether its hash and its transactions root are what they claim to be.

import { getBlock, getTransaction, pause } from "../api.js";
import { grouped } from "../amounts.js";
import { addUpBlocks, knownTotals, MOST_ADDED_UP } from "../contents.js";
import { fill, h } from "../dom.js";
import { headerHash, transactionsRoot } from "../proof.js";
import { findProposers } from "../proposers.js";
import { href } from "../routes.js";
import {
    age,
    amount,
    badge,
    card,
    copyable,
    counted,
    dateOf,
    facts,
    fullness,
    numberedPages,
    pageHead,
    pageOf,
    pager,
    referenceColumns,
    table,
    transactionColumns,
    view,
    wholeAccount,
    wholeBlockHash,
} from "../widgets.js";

/** @import { Block } from "../api.js" */
/** @import { Child } from "../dom.js" */
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
    const rootHolds = await gives(block.transactionsRoot, () => transactionsRoot(block.transactions, () => pause(0)));
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
        "Previous and next block",
        ["Previous block", height > 0n ? href(`/block/${height - 1n}`) : null],
        ["Next block", height < head ? href(`/block/${height + 1n}`) : null],
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
        return { ...tx, number: first + index + 1 };
    });
    const items = await Promise.all(look);
    return card(
        counted(block.transactions.length, "transaction"),
        table(
            "Transactions of the block, in order",
            [["#", (tx) => grouped(tx.number), "number"], ...transactionColumns(...referenceColumns(items))],
            items,
            "This block has no transactions.",
        ),
        numberedPages("Pages of transactions", `/block/${block.hash}`, page, pages),
    );
}

/**
 * What the block's transactions add up to.
 * @param {Block} block
 * @param {AbortSignal} signal
 * @returns {Promise<{ value: Child, fees: Child }>}
 */
async function totalsOf(block, signal) {
    const summary = { ...block, transactionCount: BigInt(block.transactions.length) };
    await addUpBlocks([summary], () => {}, signal);
    const totals = knownTotals(summary);
    if (totals) return { value: amount(totals.value), fees: amount(totals.fees) };
    const isLarge = block.transactions.length > MOST_ADDED_UP;
    const why = isLarge ? `Not added up: more than ${grouped(MOST_ADDED_UP)} transactions` : "Not known";
    return { value: why, fees: ["At least ", amount(block.gasUsed * block.baseFeePerGas)] };
}

/** @type {View} */
export async function blockView({ route, live, signal }) {
    await live.loaded;
    const block = await getBlock(route.argument, signal);
    const pages = Math.max(1, Math.ceil(block.transactions.length / PAGE));
    const page = pageOf(route, pages);
    const verdict = h("div", { class: "verdict" }, badge("pending", "Verifying"));
    const [listed, totals, proposers] = await Promise.all([
        transactionsCard(block, page, pages, signal),
        totalsOf(block, signal),
        findProposers(live.chain, signal),
    ]);
    const isGenesis = block.blockHeight === 0n;
    const date = dateOf(block.timestamp).toLocaleString();
    verify(block, verdict);
    return view(
        `Block ${grouped(block.blockHeight)}`,
        pageHead(
            ["Block ", h("span", { class: "number" }, grouped(block.blockHeight))],
            verdict,
            neighbours(block, live.blocks[0].blockHeight),
        ),
        card(
            null,
            facts(
                ["Hash", copyable(block.hash, "block hash")],
                ["Parent", isGenesis ? "None: this is the genesis block" : wholeBlockHash(block.previousHash)],
                ["Time", isGenesis ? date : [date, " (", age(block.timestamp), ")"]],
                ["Value", totals.value],
                ["Fees", totals.fees],
                ["Gas used", [fullness(block), ` (${grouped(block.gasUsed)} of ${grouped(block.gasLimit)})`]],
                ["Proposer", proposers.link(block, wholeAccount)],
                ["Transactions root", copyable(block.transactionsRoot, "transactions root")],
                ["State root", copyable(block.stateRoot, "state root")],
                ["Chain id", block.chainId.toString()],
            ),
        ),
        listed,
    );
}
