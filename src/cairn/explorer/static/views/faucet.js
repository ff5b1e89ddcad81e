// Gives coins of a dev chain to any account.

import { askFaucet, devAccounts } from "../api.js";
import { h } from "../dom.js";
import { addressField, refusalPlace } from "../fields.js";
import { showProgress } from "../progress.js";
import { card } from "../widgets.js";

const noFaucet = () =>
    card(
        null,
        h("p", { class: "lead" }, "This chain has no faucet."),
        h("p", null, "Only dev chains give coins away."),
    );

export async function faucetView({ route, signal }) {
    const head = h("div", { class: "page-head" }, h("h1", null, "Faucet"));
    if ((await devAccounts(signal)).length === 0) {
        return { title: "Faucet", content: h("div", { class: "view narrow" }, head, noFaucet()) };
    }
    const to = addressField(
        "to",
        "Account",
        route.query.get("to") ?? "",
        "Any address; it needs no coins and no history.",
    );
    const refusal = refusalPlace();
    const progress = h("div", { class: "progress-place" });
    const button = h("button", { class: "button main" }, "Give it coins");

    const ask = async (event) => {
        event.preventDefault();
        const address = to.read();
        if (!address) return;
        refusal.clear();
        button.disabled = true;
        try {
            showProgress(progress, (await askFaucet(address)).txHash, signal);
        } catch (failure) {
            refusal.show(failure);
        } finally {
            button.disabled = false;
        }
    };
    const about = h("p", { class: "lead" }, "Coins of a dev chain are worth nothing, so take as many as you like.");
    const form = h(
        "form",
        { onsubmit: ask, novalidate: true },
        to.element,
        h("p", { class: "actions" }, button),
        refusal.element,
    );
    return { title: "Faucet", content: h("div", { class: "view narrow" }, head, card(null, about, form, progress)) };
}
