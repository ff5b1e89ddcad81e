// Who makes the blocks of a network, and who may change that.

import { grouped } from "../amounts.js";
import { h } from "../dom.js";
import { findValidators, Proposers, validatorName } from "../proposers.js";
import { accountLink, age, blockLink, card, counted, narrowView, pageHead, table, view, wholeAccount } from "../widgets.js";

/** @import { Evidence, Validator, Validators } from "../api.js" */
/** @import { Live } from "../live.js" */
/** @import { View } from "../router.js" */

const noValidators = () =>
    card(
        null,
        h("p", { class: "lead" }, "This chain has no validators."),
        h("p", null, "One node makes its blocks. On a network, validators agree on each block and are listed here."),
    );

/**
 * How many of the latest blocks each has proposed and missed.
 * @param {Validators} current
 * @param {Proposers} proposers
 * @param {Live} live
 */
function validatorTable({ validators, votedBlocks }, proposers, { blocks }) {
    const mined = blocks.filter((block) => block.blockHeight > 0n);
    const all = validators.reduce((sum, { power }) => sum + power, 0n);
    /** @param {Validator} validator */
    const proposed = ({ feeRecipient }) => {
        if (proposers.nameOf({ proposer: feeRecipient }) === null) return h("span", { class: "unit" }, "not known");
        return grouped(mined.filter((block) => block.proposer === feeRecipient).length);
    };
    return table(
        "Validators",
        [
            ["Name", validatorName],
            ["Power", ({ power }) => grouped(power), "end"],
            ["Share (%)", ({ power }) => (Number((power * 1_000n) / (all || 1n)) / 10).toString(), "end"],
            [`Proposed of the last ${mined.length}`, proposed, "end"],
            [`Missed of the last ${votedBlocks}`, ({ missedBlocks }) => grouped(missedBlocks), "end"],
            ["Fee recipient", recipient],
            ["CometBFT address", ({ address }) => h("span", { class: "code whole" }, address)],
        ],
        validators,
        "None.",
    );
}

/**
 * `cairn testnet` gives validators their own CometBFT address for want of an account: nobody has its key.
 * @param {Validator} validator
 */
const recipient = ({ feeRecipient, address }) =>
    feeRecipient.slice(2).toUpperCase() === address
        ? h("span", { class: "unit" }, "not set")
        : accountLink(feeRecipient);

/** @param {Validators} current */
const administrators = ({ admins, threshold, sequence }) =>
    card(
        "Administrators",
        h(
            "p",
            null,
            admins.length === 0
                ? "Nobody can change the validators of this network."
                : `A change of the validators needs ${counted(threshold, "signature")}. ` +
                      `There have been ${counted(sequence, "change")}.`,
        ),
        h(
            "ul",
            { class: "plain" },
            admins.map((address) => h("li", null, wholeAccount(address))),
        ),
    );

/** What each kind of evidence says. */
const KINDS = /** @type {Record<string, string>} */ ({
    duplicateVote: "two votes in one round",
    lightClientAttack: "a block that is not the chain's",
});

/** @param {Validators} current */
const misconduct = ({ evidence, evidenceCount }) =>
    card(
        "Evidence",
        h(
            "p",
            null,
            evidenceCount === 0n
                ? "No validator has signed what it must not sign."
                : `There have been ${counted(evidenceCount, "piece")} of evidence that a validator signed what it must ` +
                      "not sign: two processes use its key, or it is hostile. The latest are listed.",
        ),
        evidenceCount > 0n &&
            table(
                "Evidence",
                [
                    ["Validator", ({ name, address }) => validatorName({ name, address })],
                    ["Signed", ({ kind }) => KINDS[kind] ?? kind],
                    ["Block", ({ blockHeight }) => blockLink(blockHeight), "end"],
                    ["Time", ({ timestamp }) => age(timestamp)],
                    ["CometBFT address", ({ address }) => h("span", { class: "code whole" }, address)],
                ],
                /** @type {Evidence[]} */ (evidence),
                "None.",
            ),
    );

/** @type {View} */
export async function validatorsView({ live, signal }) {
    await live.loaded;
    const current = await findValidators(live.chain, signal);
    const head = pageHead("Validators");
    if (!current) return narrowView("Validators", head, noValidators());
    const proposers = new Proposers(current.validators);
    const areAllKnown = current.validators.every((each) => proposers.nameOf({ proposer: each.feeRecipient }) !== null);
    const note = "A block names the account that received its fees. Validators that share one cannot be told apart.";
    return view(
        "Validators",
        head,
        card(
            counted(current.validators.length, "validator"),
            validatorTable(current, proposers, live),
            !areAllKnown && h("p", { class: "hint" }, note),
        ),
        misconduct(current),
        administrators(current),
    );
}
