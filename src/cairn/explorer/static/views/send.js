// Sends coins, and shows them on their way.

import { devAccounts } from "../api.js";
import { checksummed } from "../addresses.js";
import { describeAmount, grouped, parseAmount, UNITS } from "../amounts.js";
import { fill, h } from "../dom.js";
import { addressField, field, refusalPlace } from "../fields.js";
import { showProgress } from "../progress.js";
import { devSource, TRANSFER_GAS, walletSource } from "../sources.js";
import { card } from "../widgets.js";
import { findWallet } from "../wallet.js";

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

/** `read` gives the amount, or says what is wrong, moves the focus there, and gives null. */
function amountField(chain) {
    const input = h("input", { name: "amount", inputmode: "decimal", autocomplete: "off", required: true, value: "1" });
    const unit = h(
        "select",
        { "aria-label": "Unit", name: "unit" },
        Object.keys(UNITS).map((name) => h("option", null, name)),
    );
    const fee = describeAmount(TRANSFER_GAS * chain.gasPrice);
    const made = field("amount", "Amount", input, unit);
    const review = () => {
        try {
            const value = parseAmount(input.value, unit.value);
            made.explain(`Exactly ${grouped(value)} wei, and a fee of ${fee}.`);
            return value;
        } catch (failure) {
            made.complain(failure.message);
            return null;
        }
    };
    input.addEventListener("input", review);
    unit.addEventListener("change", review);
    review();
    const read = () => {
        const value = review();
        if (value === null) input.focus();
        return value;
    };
    return { ...made, read };
}

function recipientField(given, dev) {
    const made = addressField("to", "To", given, "Any address, or one of the dev accounts as you type.");
    made.control.setAttribute("list", "known");
    made.element.append(
        h(
            "datalist",
            { id: "known" },
            dev.map((address) => h("option", { value: checksummed(address) })),
        ),
    );
    return made;
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
    const to = recipientField(route.query.get("to") ?? "", dev);
    const amount = amountField(live.chain);
    const refusal = refusalPlace();
    const button = h("button", { class: "button main" }, "Send");
    const progress = h("div", { class: "progress-place" });
    const send = async (event) => {
        event.preventDefault();
        const address = to.read();
        const value = address && amount.read();
        if (value === null) return;
        refusal.clear();
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
