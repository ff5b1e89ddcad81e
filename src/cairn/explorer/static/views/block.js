// One block: what it holds, and whether its hash and its transactions root are what they claim to be.

import { getBlock, getTransaction } from "../api.js";
import { grouped } from "../amounts.js";
import { addUpBlocks, knownTotals, MOST_ADDED_UP } from "../contents.js";
import { h } from "../dom.js";
import { findProposers } from "../proposers.js";
import { href } from "../routes.js";
import { Doubt, trust } from "../trust.js";
import { needSame, verdictOf } from "../verdicts.js";
import { merkleRoot } from "../verify.mjs";
import {
    age,
    amount,
    amountWithCopy,
    card,
    copyable,
    counted,
    dateOf,
    facts,
    fullness,
    jsonCard,
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
/** @import { FinalityReport } from "../trust.js" */

/** Transactions on a page. */
export const PAGE = 25;

/**
 * What the page shows of the block, beside the same as the validators have signed it.
 * @param {Block} block
 * @param {FinalityReport} report
 */
async function needSigned(block, { block: signed }) {
    needSame([
        ["hash", block.hash, `0x${signed.hash}`],
        ["height", block.blockHeight, signed.height],
        ["parent", block.previousHash, `0x${signed.previousHash}`],
        ["time", block.timestamp, signed.time],
        ["proposer", block.proposer, `0x${signed.proposer}`],
        ["gas used", block.gasUsed, signed.gasUsed],
        ["gas limit", block.gasLimit, signed.gasLimit],
        ["base fee", block.baseFeePerGas, signed.baseFeePerGas],
        ["transactions root", block.transactionsRoot, `0x${signed.transactionsRoot}`],
        ["changes root", block.receiptsRoot, `0x${signed.receiptsRoot}`],
        ["state root", block.stateRoot, `0x${signed.stateRoot}`],
        ["history root", block.mixHash, `0x${signed.mixHash}`],
        ["chain id", block.chainId, (await trust.genesis()).chainId],
        ["number of transactions", block.transactionCount, signed.transactionCount],
        ["number of transactions", BigInt(block.transactions.length), signed.transactionCount],
    ]);
    const root = await merkleRoot(block.transactions.map((hash) => hash.slice(2)));
    if (root !== signed.transactionsRoot) throw new Doubt("The transactions that the node lists are not those of the signed block.");
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
    if (totals) return { value: amountWithCopy(totals.value, "value"), fees: amountWithCopy(totals.fees, "fees") };
    const isLarge = block.transactions.length > MOST_ADDED_UP;
    const why = isLarge ? `Not added up: more than ${grouped(MOST_ADDED_UP)} transactions` : "Not known";
    return { value: why, fees: ["At least ", amount(block.gasUsed * block.baseFeePerGas)] };
}

/** @type {View} */
export async function blockView(context) {
    const { route, live, signal } = context;
    await live.loaded;
    const block = await getBlock(route.argument, signal);
    const pages = Math.max(1, Math.ceil(block.transactions.length / PAGE));
    const page = pageOf(route, pages);
    const [listed, totals, proposers] = await Promise.all([
        transactionsCard(block, page, pages, signal),
        totalsOf(block, signal),
        findProposers(live.chain, signal),
    ]);
    const isGenesis = block.blockHeight === 0n;
    const date = dateOf(block.timestamp).toLocaleString();
    const check = async () => {
        const report = /** @type {FinalityReport & { text: string }} */ (await trust.check(`/block/${block.hash}/finality`, signal));
        await needSigned(block, report);
        return report;
    };
    return view(
        `Block ${grouped(block.blockHeight)}`,
        pageHead(
            ["Block ", h("span", { class: "number" }, grouped(block.blockHeight))],
            neighbours(block, live.blocks[0].blockHeight),
        ),
        card(
            null,
            facts(
                ["Hash", copyable(block.hash, "block hash")],
                ["Proof", verdictOf(check, context)],
                ["Parent", isGenesis ? "None: this is the genesis block" : wholeBlockHash(block.previousHash)],
                ["Time", isGenesis ? date : [date, " (", age(block.timestamp), ")"]],
                ["Value", totals.value],
                ["Fees", totals.fees],
                ["Gas used", [fullness(block), ` (${grouped(block.gasUsed)} of ${grouped(block.gasLimit)})`]],
                ["Proposer", proposers.link(block, wholeAccount)],
                ["Transactions root", copyable(block.transactionsRoot, "transactions root")],
                ["Changes root", copyable(block.receiptsRoot, "changes root")],
                ["State root", copyable(block.stateRoot, "state root")],
                ["History root", copyable(block.mixHash, "history root")],
                ["Chain id", block.chainId.toString()],
            ),
        ),
        listed,
        jsonCard(`/block/${block.hash}`, signal),
    );
}
