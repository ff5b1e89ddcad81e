// Gives coins of a dev chain to any account.

import { askFaucet, devAccounts, faucetAmounts } from "../api.js";
import { describeAmount, grouped } from "../amounts.js";
import { h } from "../dom.js";
import { addressField, amountField, paymentForm } from "../fields.js";
import { showProgress } from "../progress.js";
import { card, narrowView, pageHead } from "../widgets.js";

/** @import { View } from "../router.js" */

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
