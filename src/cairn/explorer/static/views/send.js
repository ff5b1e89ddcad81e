// Sends coins, and shows them on their way.

import { devAccounts } from "../api.js";
import { describeAmount, grouped } from "../amounts.js";
import { fill, h } from "../dom.js";
import { addressField, amountField, refusalPlace } from "../fields.js";
import { showProgress } from "../progress.js";
import { devSource, TRANSFER_GAS, walletSource } from "../sources.js";
import { card } from "../widgets.js";
import { findWallet } from "../wallet.js";

const ONE_COIN = 10n ** 18n;

/** [id, label, source] of every way to sign that there is here. */
async function findSources(dev, { route, live, signal }) {
    const wallet = findWallet();
    const sources = [];
    if (dev.length) sources.push(["dev", "Dev account", await devSource(dev, route.query.get("from"), signal)]);
    if (wallet) sources.push(["wallet", "Browser wallet", walletSource(wallet, live.chain, signal)]);
    return sources;
}

/** A choice between the sources, shown when there is one to make. */
function sourceChoice(sources) {
    const place = h("div");
    const choice = {};
    const choose = (source) => {
        choice.source = source;
        fill(place, source.element);
    };
    choose(sources[0][2]);
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
    choice.element = h("div", null, fieldset, place);
    return choice;
}

const nobodySigns = () =>
    card(
        null,
        h("p", { class: "lead" }, "Nobody can sign here yet."),
        h(
            "p",
            null,
            "This node holds no keys, and this browser has no wallet. Install one (MetaMask, Rabby and others work), ",
            "or sign elsewhere and use ",
            h("a", { href: "/docs" }, "POST /tx"),
            ".",
        ),
    );

function transferForm(sources, dev, { route, live, signal }) {
    const choice = sourceChoice(sources);
    const hint = dev.length ? "Any address, or one of dev0 to dev9." : "Any address.";
    const to = addressField("to", "To", route.query.get("to") ?? "", hint, dev);
    const fee = describeAmount(TRANSFER_GAS * live.chain.gasPrice);
    const amount = amountField(ONE_COIN, (value) => `Exactly ${grouped(value)} wei, and a fee of ${fee}.`);
    const refusal = refusalPlace();
    const button = h("button", { class: "button main" }, "Send");
    const progress = h("div", { class: "progress-place" });
    const send = async (event) => {
        event.preventDefault();
        refusal.clear();
        const address = to.read();
        const value = address && amount.read();
        if (value === null) return;
        button.disabled = true;
        try {
            const { source } = choice;
            const hash = await source.send({ to: address, value });
            showProgress(progress, hash, signal).then(() => signal.aborted || source.refresh());
        } catch (failure) {
            refusal.show(failure);
        } finally {
            button.disabled = false;
        }
    };
    const form = h(
        "form",
        { onsubmit: send, novalidate: true },
        choice.element,
        to.element,
        amount.element,
        h("p", { class: "actions" }, button),
        refusal.element,
    );
    return card(null, form, progress);
}

export async function sendView(context) {
    await context.live.loaded;
    const dev = await devAccounts(context.signal);
    const sources = await findSources(dev, context);
    const body = sources.length ? transferForm(sources, dev, context) : nobodySigns();
    const head = h("div", { class: "page-head" }, h("h1", null, "Send coins"));
    return { title: "Send", content: h("div", { class: "view narrow" }, head, body) };
}
