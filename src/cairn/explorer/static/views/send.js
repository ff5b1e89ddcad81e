// The two forms that pay: from an account of a dev chain or a wallet, and from the faucet of a dev chain.

import { askFaucet, devAccounts, faucetAmounts } from "../api.js";
import { describeAmount, ONE_COIN } from "../amounts.js";
import { fill, h } from "../dom.js";
import { addressField, amountField, paymentForm, referenceField } from "../fields.js";
import { intrinsicGas } from "../references.js";
import { devSigner, walletSigner } from "../signers.js";
import { card, copyButton, narrowView, pageHead } from "../widgets.js";
import { findWallet } from "../wallet.js";

/** @import { Context, View } from "../router.js" */
/** @import { Signer } from "../signers.js" */

/** @typedef {[id: string, label: string, signer: Signer]} NamedSigner */

/**
 * Every way to sign that there is here.
 * @param {string[]} dev
 * @param {Context} context
 */
async function findSigners(dev, { route, live, signal }) {
    const wallet = findWallet();
    /** @type {NamedSigner[]} */
    const signers = [];
    if (dev.length) signers.push(["dev", "Dev account", await devSigner(dev, route.query.get("from"), signal)]);
    if (wallet) signers.push(["wallet", "Browser wallet", walletSigner(wallet, live.chain, signal)]);
    return signers;
}

/**
 * A choice between the signers, shown when there is one to make.
 * @param {NamedSigner[]} signers
 */
function signerChoice(signers) {
    let chosen = signers[0][2];
    const place = h("div", null, chosen.element);
    /** @param {Signer} signer */
    const choose = (signer) => {
        chosen = signer;
        fill(place, signer.element);
    };
    const options = signers.map(([id, label, signer], index) => [
        h("input", { type: "radio", name: "source", id, checked: index === 0, onchange: () => choose(signer) }),
        h("label", { for: id }, label),
    ]);
    const fieldset = h(
        "fieldset",
        { class: "choice", hidden: signers.length < 2 },
        h("legend", null, "Sign with"),
        options,
    );
    return { element: h("div", null, fieldset, place), chosen: () => chosen };
}

function nobodySigns() {
    const command = `cairn send KEY ADDRESS 1coin --node ${location.origin}`;
    const code = h("pre", { role: "region", "aria-label": "Command" }, h("code", null, command));
    return card(
        null,
        h("p", { class: "lead" }, "There is no key to sign with."),
        h(
            "p",
            null,
            "This node holds no keys, and this browser has no wallet. Pay from your own machine; KEY is the name of a key (",
            h("code", null, "cairn keys list"),
            "):",
        ),
        h("div", { class: "snippet" }, code, copyButton(command, "command")),
        h(
            "p",
            { class: "hint" },
            "Or install a wallet (MetaMask and Rabby work), or sign in your own program and submit with ",
            h("a", { href: "/docs" }, "POST /tx"),
            ".",
        ),
    );
}

/**
 * @param {NamedSigner[]} signers
 * @param {string[]} dev
 * @param {Context} context
 */
function transferForm(signers, dev, { route, live, signal }) {
    const choice = signerChoice(signers);
    const named = dev.length ? "a label of yours, or the name of a dev account, such as dev0" : "or a label of yours";
    const hint = `Any address, ${named}.`;
    const to = addressField("to", "To", route.query.get("to") ?? "", hint);
    const { gasPrice, maxDataBytes } = live.chain;
    const reference = maxDataBytes > 0n ? referenceField(maxDataBytes, () => amount.review()) : null;
    const amount = amountField(ONE_COIN, (value) => {
        const fee = intrinsicGas(reference?.bytes() ?? new Uint8Array()) * gasPrice;
        return `Exactly ${describeAmount(value)}, plus a fee of ${describeAmount(fee)}.`;
    });
    return card(
        null,
        paymentForm(
            "Send",
            choice.element,
            { to, amount, reference },
            (address, value, data) => choice.chosen().send({ to: address, value, data }),
            signal,
            () => choice.chosen().refresh(),
        ),
    );
}

/** @type {View} */
export async function sendView(context) {
    await context.live.loaded;
    const dev = await devAccounts(context.signal);
    const signers = await findSigners(dev, context);
    const body = signers.length ? transferForm(signers, dev, context) : nobodySigns();
    return narrowView("Send", pageHead("Send coins"), body);
}

const noFaucet = () =>
    card(
        null,
        h("p", { class: "lead" }, "This chain has no faucet."),
        h("p", null, "Only dev chains have one."),
    );

/** @type {View} */
export async function faucetView({ route, signal }) {
    const head = pageHead("Faucet");
    const dev = await devAccounts(signal);
    if (dev.length === 0) return narrowView("Faucet", head, noFaucet());
    const to = addressField(
        "to",
        "Account",
        route.query.get("to") ?? "",
        "Any address, a label of yours, or the name of a dev account, such as dev0. The account may be new.",
    );
    const { usual, most } = await faucetAmounts(signal);
    const amount = amountField(usual, (value) => `Exactly ${describeAmount(value)}.`, { least: 1n, most });
    /** @type {(address: string, value: bigint) => Promise<string>} */
    const pay = async (address, value) => (await askFaucet(address, value)).txHash;
    const form = paymentForm("Send coins", null, { to, amount }, pay, signal);
    const about = h(
        "p",
        { class: "lead" },
        `Coins of a dev chain have no value. Take up to ${describeAmount(most)} at a time.`,
    );
    return narrowView("Faucet", head, card(null, about, form));
}
