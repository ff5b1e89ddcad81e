// The two forms that pay: from an account of a dev chain or a wallet, and from the faucet of a dev chain.

import { askFaucet, devAccounts, faucetAmounts } from "../api.js";
import { describeAmount, grouped, ONE_COIN, TRANSFER_GAS } from "../amounts.js";
import { fill, h } from "../dom.js";
import { addressField, amountField, paymentForm } from "../fields.js";
import { showProgress } from "../progress.js";
import { devSource, walletSource } from "../sources.js";
import { card, narrowView, pageHead } from "../widgets.js";
import { findWallet } from "../wallet.js";

/** @import { Context, View } from "../router.js" */
/** @import { Source } from "../sources.js" */

/** @typedef {[id: string, label: string, source: Source]} NamedSource */

/**
 * Every way to sign that there is here.
 * @param {string[]} dev
 * @param {Context} context
 */
async function findSources(dev, { route, live, signal }) {
    const wallet = findWallet();
    /** @type {NamedSource[]} */
    const sources = [];
    if (dev.length) sources.push(["dev", "Dev account", await devSource(dev, route.query.get("from"), signal)]);
    if (wallet) sources.push(["wallet", "Browser wallet", walletSource(wallet, live.chain, signal)]);
    return sources;
}

/**
 * A choice between the sources, shown when there is one to make.
 * @param {NamedSource[]} sources
 */
function sourceChoice(sources) {
    let chosen = sources[0][2];
    const place = h("div", null, chosen.element);
    /** @param {Source} source */
    const choose = (source) => {
        chosen = source;
        fill(place, source.element);
    };
    const options = sources.map(([id, label, source], index) => [
        h("input", { type: "radio", name: "source", id, checked: index === 0, onchange: () => choose(source) }),
        h("label", { for: id }, label),
    ]);
    const fieldset = h(
        "fieldset",
        { class: "choice", hidden: sources.length < 2 },
        h("legend", null, "Sign with"),
        options,
    );
    return { element: h("div", null, fieldset, place), chosen: () => chosen };
}

const nobodySigns = () =>
    card(
        null,
        h("p", { class: "lead" }, "There is no key to sign with."),
        h(
            "p",
            null,
            "This node holds no keys, and this browser has no wallet. Install one (MetaMask and Rabby work), ",
            "or sign in your own program and submit with ",
            h("a", { href: "/docs" }, "POST /tx"),
            ".",
        ),
    );

/**
 * @param {NamedSource[]} sources
 * @param {string[]} dev
 * @param {Context} context
 */
function transferForm(sources, dev, { route, live, signal }) {
    const choice = sourceChoice(sources);
    const named = dev.length ? "a label of yours, or the name of a dev account, such as dev0" : "or a label of yours";
    const hint = `Any address, ${named}.`;
    const to = addressField("to", "To", route.query.get("to") ?? "", hint);
    const fee = describeAmount(TRANSFER_GAS * live.chain.gasPrice);
    const amount = amountField(ONE_COIN, (value) => `Exactly ${grouped(value)} wei, plus a fee of ${fee}.`);
    const progress = h("div", { class: "progress-place" });
    /** @type {(source: Source, hash: string) => Promise<void>} */
    const follow = async (source, hash) => {
        await showProgress(progress, hash, signal);
        if (!signal.aborted) await source.refresh();
    };
    const form = paymentForm("Send", choice.element, to, amount, async (address, value) => {
        const source = choice.chosen();
        follow(source, await source.send({ to: address, value }));
    });
    return card(null, form, progress);
}

/** @type {View} */
export async function sendView(context) {
    await context.live.loaded;
    const dev = await devAccounts(context.signal);
    const sources = await findSources(dev, context);
    const body = sources.length ? transferForm(sources, dev, context) : nobodySigns();
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
    const amount = amountField(usual, (value) => `Exactly ${grouped(value)} wei.`, { least: 1n, most });
    const progress = h("div", { class: "progress-place" });
    const form = paymentForm("Send coins", null, to, amount, async (address, value) => {
        showProgress(progress, (await askFaucet(address, value)).txHash, signal);
    });
    const about = h(
        "p",
        { class: "lead" },
        `Coins of a dev chain have no value. Take up to ${describeAmount(most)} at a time.`,
    );
    return narrowView("Faucet", head, card(null, about, form, progress));
}
