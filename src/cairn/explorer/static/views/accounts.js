// The accounts that have names: those of a dev chain, and those that the viewer labelled.

import { devAccounts } from "../api.js";
import { h } from "../dom.js";
import { namedAccounts } from "../names.js";
import { accountsTable, firstPayment, snippetsCard } from "../welcome.js";
import { card } from "../widgets.js";

/** @import { View } from "../router.js" */

/** @type {View} */
export async function accountsView(context) {
    await context.live.loaded;
    const dev = await devAccounts(context.signal);
    const labelled = namedAccounts().filter((address) => !dev.includes(address));
    const nothing = "No labels yet. Open an account and give it one; labels are kept in this browser only.";
    return {
        title: "Accounts",
        content: h(
            "div",
            { class: "view" },
            h("div", { class: "page-head" }, h("h1", null, "Accounts")),
            dev.length > 0 && card("Dev accounts", await accountsTable("Dev accounts", dev, context)),
            card("Your labels", await accountsTable("Accounts with your labels", labelled, context, nothing)),
            dev.length > 0 &&
                h("div", { class: "columns" }, firstPayment(dev, context.signal), snippetsCard(dev)),
        ),
    };
}
