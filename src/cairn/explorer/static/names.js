// Names of accounts: dev0, dev1 and so on for those of a dev chain, and the labels that the viewer gave. Labels never
// leave this browser.

import { checksummed, isAddress } from "./addresses.js";
import { devAccounts } from "./api.js";

const KEY = "cairn-labels";
export const LONGEST_LABEL = 40;

/**
 * By address in lower case.
 * @typedef {Record<string, string>} Labels
 */

/**
 * In the order of their numbers, in lower case; empty on any chain but a dev chain.
 * @type {string[]}
 */
let dev = [];
let labels = readLabels() ?? {};

/** @returns {Labels | null} */
function readLabels() {
    try {
        const stored = JSON.parse(localStorage.getItem(KEY) ?? "{}");
        const isText = (/** @type {unknown} */ value) => typeof value === "string" && value !== "";
        const isLabel = (/** @type {[string, unknown]} */ [address, label]) => isAddress(address) && isText(label);
        return Object.fromEntries(Object.entries(Object(stored)).filter(isLabel));
    } catch {
        return null; // Storage may be forbidden, or hold something else.
    }
}

/**
 * Ask the node for its dev accounts; until then, and where it has none, accounts have only labels. Gives whether they
 * are others than before.
 */
export async function learnNames() {
    const learnt = await devAccounts().catch(() => dev);
    const areOthers = learnt.join() !== dev.join();
    dev = learnt;
    return areOthers;
}

export const isDevChain = () => dev.length > 0;

/** @param {string} address */
export const labelOf = (address) => labels[address.toLowerCase()] ?? null;

/**
 * Keep a label for this account; an empty one removes it. Gives what is wrong with it, or null: payments go to the
 * account of a label, so a label must not mean two.
 * @param {string} address
 * @param {string} text
 */
export function setLabel(address, text) {
    const [key, label] = [address.toLowerCase(), text.trim().slice(0, LONGEST_LABEL)];
    // Read again: another tab may have changed others meanwhile.
    labels = readLabels() ?? labels;
    if (/^0x|^[0-9a-f]{40}$/i.test(label)) return "A label cannot look like an address or a hash.";
    if (/^dev\d+$/i.test(label)) return "A label cannot look like the name of a dev account.";
    if (/^\d+$/.test(label)) return "A label cannot be a number: it would look like the height of a block.";
    const holder = addressNamed(label);
    if (holder !== null && holder.toLowerCase() !== key) return `${label} is the name of another account.`;
    if (label) labels[key] = label;
    else delete labels[key];
    try {
        localStorage.setItem(KEY, JSON.stringify(labels));
    } catch {
        // It then lasts as long as the page.
    }
    return null;
}

/**
 * The name of a dev account by its place among those of this chain, or null. The command line always means the usual
 * ten, which are others where the chain has a mnemonic of its own.
 * @param {string} address
 */
export function devName(address) {
    const index = dev.indexOf(address.toLowerCase());
    return index < 0 ? null : `dev${index}`;
}

/**
 * What the page calls the account: its label, its name as a dev account, or null.
 * @param {string} address
 */
export const nameOf = (address) => labelOf(address) ?? devName(address);

/** The addresses that have a name: dev accounts first. */
export function namedAccounts() {
    return [...dev, ...Object.keys(labels).filter((address) => !dev.includes(address))];
}

/**
 * The address of the account of that name, or null.
 * @param {string} text
 */
export function addressNamed(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted || isAddress(wanted)) return null;
    /** @param {string | null} name */
    const isWanted = (name) => name?.toLowerCase() === wanted;
    const found =
        dev.find((address) => isWanted(devName(address))) ??
        Object.keys(labels).find((address) => isWanted(labelOf(address)));
    return found === undefined ? null : checksummed(found);
}
