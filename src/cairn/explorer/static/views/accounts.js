// The accounts with the largest balances, of those that this page knows: no interface lists all accounts of a chain.

import { devAccounts } from "../api.js";
import { balanceColumn, readBalances, renewBalances } from "../columns.js";
import { newestTransactions } from "../contents.js";
import { h } from "../dom.js";
import { genesisAccounts } from "../genesis.js";
import { paced, RECENT } from "../live.js";
import { devName, namedAccounts } from "../names.js";
import { findValidators, NOBODY, Proposers } from "../proposers.js";
import { firstPayment, snippetsCard } from "../welcome.js";
import { amount, card, counted, freshNotice, numberedPages, pageHead, pageOf, table, view, wholeAccount } from "../widgets.js";

/** @import { Header, Validator } from "../api.js" */
/** @import { Balances } from "../columns.js" */
/** @import { View } from "../router.js" */
/** @typedef {Map<string, string>} Known What each account is known as, by address in lower case. */

const PAGE = 50;
const MOST_ACCOUNTS = 200;
const MOST_TRANSACTIONS = 100;
/** Between two readings: one reading is of all balances. */
const REST_MS = 5_000;
const NOTHING = "None so far. The accounts of the first transactions will be here.";

/** @type {(known: Known, address: string, as: string) => void} */
function learn(known, address, as) {
    const key = address.toLowerCase();
    if (!known.has(key) && known.size < MOST_ACCOUNTS) known.set(key, as);
}

/**
 * Those that have a name, a validator's fees, or coins since genesis. They come first, so that they are listed in any
 * case.
 * @param {Validator[]} validators
 * @param {string[]} first
 */
function namedOnes(validators, first) {
    /** @type {Known} */
    const known = new Map();
    for (const address of namedAccounts()) {
        learn(known, address, devName(address) === null ? "your label" : "dev account");
    }
    const proposers = new Proposers(validators);
    for (const { feeRecipient } of validators) {
        const name = proposers.nameOf({ proposer: feeRecipient });
        if (feeRecipient !== NOBODY) learn(known, feeRecipient, name === null ? "validators" : `validator ${name}`);
    }
    for (const address of first) learn(known, address, "genesis account");
    return known;
}

/**
 * Those that these blocks name.
 * @param {Known} known
 * @param {Header[]} blocks
 * @param {AbortSignal} signal
 */
async function learnFrom(known, blocks, signal) {
    for (const { proposer } of blocks) if (proposer !== NOBODY) learn(known, proposer, "proposer");
    for (const { from, to } of await newestTransactions(blocks, MOST_TRANSACTIONS, signal)) {
        learn(known, from, "sender");
        learn(known, to, "recipient");
    }
}

/**
 * Largest balance first; those that could not be read come last.
 * @param {Known} known
 * @param {Balances} balances
 */
function ranked(known, balances) {
    /** @param {string} address */
    const balance = (address) => balances.get(address) ?? -1n;
    return [...known.keys()].sort((one, other) => Number(balance(other) - balance(one)));
}

/**
 * Which accounts the list has.
 * @param {boolean} isDev
 * @param {boolean} hasValidators
 * @param {boolean} hasGenesis
 */
const whichOnes = (isDev, hasValidators, hasGenesis) =>
    `Not every account of the chain, but up to ${MOST_ACCOUNTS}: ` +
    (isDev ? "the dev accounts, " : "") +
    (hasValidators ? "the fee recipients of the validators, " : "") +
    "those that you labelled, " +
    (hasGenesis ? "those of genesis, " : "") +
    `the proposers of the latest ${RECENT} blocks, and the senders and recipients of their latest ${MOST_TRANSACTIONS} ` +
    "transactions.";

/** @type {View} */
export async function accountsView({ route, live, signal, again }) {
    await live.loaded;
    const [dev, network, first] = await Promise.all([
        devAccounts(signal),
        findValidators(live.chain, signal),
        genesisAccounts(signal),
    ]);
    const known = namedOnes(network?.validators ?? [], first);
    /** @type {Balances} */
    const balances = new Map();
    let seen = -1n;
    const read = async () => {
        const { blocks } = live;
        await learnFrom(
            known,
            blocks.filter((block) => block.blockHeight > seen),
            signal,
        );
        seen = blocks[0].blockHeight;
        await readBalances(balances, [...known.keys()], signal);
    };
    await read();
    const order = ranked(known, balances);
    const pages = Math.max(1, Math.ceil(order.length / PAGE));
    const page = pageOf(route, pages);
    const list = table(
        "Accounts, largest balance first",
        [
            ["Account", wholeAccount],
            ["Known as", (address) => known.get(address)],
            balanceColumn(balances),
        ],
        order.slice((page - 1) * PAGE, page * PAGE),
        NOTHING,
    );
    const notice = freshNotice(again);
    const { supply } = live.chain;
    const follow = async () => {
        await read();
        renewBalances(list, balances);
        const isSame = ranked(known, balances).join() === order.join();
        notice.show(isSame ? "" : "The list has changed. Show it");
    };
    live.on("blocks", paced(follow, REST_MS, signal), signal);
    return view(
        "Accounts",
        pageHead("Accounts by balance", supply !== undefined && h("p", null, "Supply: ", amount(supply)), notice.element),
        card(
            counted(order.length, "account"),
            h("p", { class: "hint" }, whichOnes(dev.length > 0, network !== null, first.length > 0)),
            list,
            numberedPages("Pages of accounts", "/accounts", page, pages),
            h("p", { class: "hint" }, "To label an account, open it. Labels are kept in this browser only."),
        ),
        dev.length > 0 && h("div", { class: "columns" }, firstPayment(dev, signal), snippetsCard(dev)),
    );
}
