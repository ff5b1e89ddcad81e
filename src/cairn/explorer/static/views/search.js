// Finds what a person typed: a height, an address, a name, or a hash of a transaction or a block.

import { getBlock, getTransaction, Problem } from "../api.js";
import { h } from "../dom.js";
import { addressNamed } from "../names.js";
import { href } from "../routes.js";
import { wordsView } from "../widgets.js";

/** @import { Live } from "../live.js" */
/** @import { View } from "../router.js" */

/** @typedef {{ kind: "block" | "account" | "hash", value: string }} Meant */

/**
 * What the text can be, or null.
 * @param {string} text
 * @returns {Meant | null}
 */
function understand(text) {
    const plain = text.trim().replace(/^#/, "");
    const digits = plain.replace(/^0x/i, "");
    if (/^[0-9a-f]{64}$/i.test(digits)) return { kind: "hash", value: `0x${digits.toLowerCase()}` };
    if (/^[0-9a-f]{40}$/i.test(digits)) return { kind: "account", value: `0x${digits}` };
    const height = plain.replace(/[,_\s]/g, "");
    if (/^\d{1,20}$/.test(height)) return { kind: "block", value: BigInt(height).toString() };
    if (plain.toLowerCase() === "latest") return { kind: "block", value: "latest" };
    const address = addressNamed(text);
    return address === null ? null : { kind: "account", value: address };
}

/**
 * Whether the node knows it; a dropped transaction has a page too, which says why.
 * @param {Promise<unknown>} looking
 */
async function exists(looking) {
    try {
        await looking;
        return true;
    } catch (failure) {
        if (failure instanceof Problem && failure.status === 404) return failure.code === "TX_DROPPED";
        throw failure;
    }
}

/**
 * @param {Meant} meant
 * @param {AbortSignal} signal
 */
async function target({ kind, value }, signal) {
    if (kind === "account") return href(`/account/${value}`);
    if (kind === "hash" && (await exists(getTransaction(value, signal)))) return href(`/tx/${value}`);
    return (await exists(getBlock(value, signal))) ? href(`/block/${value}`) : null;
}

/**
 * @param {Meant | null} meant
 * @param {Live} live
 */
function advice(meant, live) {
    if (!meant) return "Search by height, address (0x and 40 digits), hash (0x and 64 digits), or name of an account.";
    if (meant.kind === "hash") return "No transaction and no block of this chain has that hash.";
    return `There is no block of that height yet. The latest is ${live.blocks[0].blockHeight}.`;
}

/** @type {View} */
export async function searchView({ route, live, signal }) {
    await live.loaded;
    const text = route.query.get("q") ?? "";
    const meant = understand(text);
    const found = meant && (await target(meant, signal));
    if (found) {
        // In place of this entry, so that going back does not lead here again.
        location.replace(found);
        return new Promise(() => {});
    }
    return wordsView("Nothing found", [
        h("p", { class: "lead" }, "You searched for ", h("q", { class: "code" }, text)),
        h("p", null, advice(meant, live)),
    ]);
}
