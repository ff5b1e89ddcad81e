// Who proposed a block: its header names the account that got the fees, and a network says whose account that is.

import { getValidators, isProblem } from "./api.js";
import { h } from "./dom.js";
import { accountLink, shortened } from "./widgets.js";

/** @import { Chain, Header, Validator } from "./api.js" */
/** @import { Column } from "./widgets.js" */

/** Where the fees go when nobody is to get them. */
export const NOBODY = `0x${"0".repeat(40)}`;

/**
 * The name of a validator, or the ends of its address where it has none.
 * @param {Pick<Validator, "name" | "address">} validator
 */
export const validatorName = ({ name, address }) => name || shortened(address);

export class Proposers {
    /**
     * Names of validators by the account that gets their fees; an account that several share tells none from another.
     * @type {Map<string, string>}
     */
    #names = new Map();

    /** @param {Validator[]} validators */
    constructor(validators) {
        for (const validator of validators) {
            const { feeRecipient } = validator;
            const isShared = validators.filter((other) => other.feeRecipient === feeRecipient).length > 1;
            if (feeRecipient !== NOBODY && !isShared) this.#names.set(feeRecipient, validatorName(validator));
        }
    }

    /**
     * The validator's name, or null where the header does not tell.
     * @param {Pick<Header, "proposer">} block
     */
    nameOf({ proposer }) {
        return this.#names.get(proposer) ?? null;
    }

    /**
     * The validator, or else the account as `account` shows one.
     * @param {Pick<Header, "proposer">} block
     * @param {(address: string) => HTMLElement} account
     */
    link(block, account = accountLink) {
        const name = this.nameOf(block);
        if (name !== null) return h("a", { href: "#/validators", title: block.proposer }, name);
        return block.proposer === NOBODY ? h("span", { class: "unit" }, "not set") : account(block.proposer);
    }

    /**
     * The column of a list of blocks; none where no block has a proposer.
     * @param {Header[]} blocks
     * @returns {Column<Header>[]}
     */
    columns(blocks) {
        const isAny = blocks.some((block) => block.proposer !== NOBODY);
        return isAny ? [["Proposer", (block) => this.link(block)]] : [];
    }
}

/**
 * The validators of a network, or null on a chain that has none.
 * @param {Chain} chain
 * @param {AbortSignal} signal
 */
export async function findValidators({ engine }, signal) {
    if (engine === "embedded") return null;
    try {
        return await getValidators(signal);
    } catch (failure) {
        if (isProblem(failure, 404)) return null;
        throw failure;
    }
}

/**
 * @param {Chain} chain
 * @param {AbortSignal} signal
 */
export async function findProposers(chain, signal) {
    return new Proposers((await findValidators(chain, signal))?.validators ?? []);
}
