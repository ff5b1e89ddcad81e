// A chain of one's own: the accounts that genesis gave coins to, the supply, and the first payment.

import { isAddress } from "./addresses.js";
import { getFile } from "./api.js";
import { balanceColumn, readBalances, renewBalances } from "./columns.js";
import { h } from "./dom.js";
import { parseExact } from "./exact.js";
import { paced } from "./live.js";
import { amount, card, copyButton, counted, table, wholeAccount } from "./widgets.js";

/** @import { Balances } from "./columns.js" */
/** @import { Live } from "./live.js" */

/** Accounts that the overview lists; the others are on the page of accounts. */
const LISTED = 10;
const REST_MS = 1_000;
/** Of a genesis.json that is read for its accounts, about 15,000: a larger one would stop the page for a while. */
const MOST_BYTES = 1_000_000;

/**
 * The accounts that genesis gave coins to, largest first, in lower case; none where it cannot be read, or is too long.
 * @param {AbortSignal} signal
 */
export async function genesisAccounts(signal) {
    try {
        /** @type {{ alloc?: Record<string, bigint | string> }} */
        const { alloc = {} } = parseExact(await getFile("/genesis", signal, MOST_BYTES));
        return Object.entries(alloc)
            .map(([address, given]) => ({ address: address.toLowerCase(), balance: BigInt(given) }))
            .filter(({ address, balance }) => isAddress(address) && balance > 0n)
            .sort((one, other) => (one.balance < other.balance ? 1 : one.balance > other.balance ? -1 : 0))
            .map(({ address }) => address);
    } catch (failure) {
        if (signal.aborted) throw failure;
        return [];
    }
}

/**
 * The accounts of genesis with their balances, which follow the chain.
 * @param {string[]} accounts
 * @param {{ live: Live, signal: AbortSignal }} context
 */
async function genesisTable(accounts, { live, signal }) {
    const listed = accounts.slice(0, LISTED);
    /** @type {Balances} */
    const balances = new Map();
    await readBalances(balances, listed, signal);
    const list = table("Genesis accounts", [["Account", wholeAccount], balanceColumn(balances)], listed);
    const follow = async () => {
        await readBalances(balances, listed, signal);
        renewBalances(list, balances);
    };
    live.on("blocks", paced(follow, REST_MS, signal), signal);
    return list;
}

/** How to pay from an account whose key is on the reader's own machine. */
function nextStep() {
    const command = `cairn send KEY ADDRESS 1coin --node ${location.origin}`;
    const code = h("pre", { role: "region", "aria-label": "Command" }, h("code", null, command));
    return card(
        "Next step: make a payment",
        h(
            "p",
            null,
            "This node holds no keys. Pay from your own machine: KEY is the name of a key (",
            h("code", null, "cairn keys list"),
            ") that owns an account with coins.",
        ),
        h("div", { class: "snippet" }, code, copyButton(command, "command")),
        h(
            "p",
            { class: "hint" },
            "Or sign with a wallet in this browser on the page ",
            h("a", { href: "#/send" }, "Send"),
            ", or in your own program: ",
            h("a", { href: "/docs" }, "API reference"),
            ".",
        ),
    );
}

/**
 * Add the accounts of genesis to the page once they are read.
 * @param {HTMLElement} place
 * @param {{ live: Live, signal: AbortSignal }} context
 */
async function addAccounts(place, context) {
    const accounts = await genesisAccounts(context.signal);
    if (accounts.length === 0) return;
    const words = `The first ${LISTED} of ${counted(accounts.length, "account")} are listed. `;
    const more = h("p", { class: "hint" }, words, h("a", { href: "#/accounts" }, "All accounts"));
    const list = await genesisTable(accounts, context);
    place.append(card("Genesis accounts", list, accounts.length > LISTED && more));
}

/**
 * What somebody needs to begin with a chain that has keys of its own; nothing once it has blocks. It is there at once: the
 * accounts, which may take a while, follow.
 * @param {{ live: Live, signal: AbortSignal }} context
 */
export function ownChain(context) {
    const { head, supply } = context.live.chain;
    if (head.blockHeight > 0n || supply === 0n) return null;
    const words = supply !== undefined && h("p", null, "The supply is ", amount(supply), ".");
    const welcome = h("div", { class: "welcome" }, h("h2", null, "Your chain is ready"), words);
    const place = h("div", { class: "view" }, welcome, nextStep());
    // It fails when the node is away for a moment, or the view is gone.
    addAccounts(place, context).catch(() => {});
    return place;
}
