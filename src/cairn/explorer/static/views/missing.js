// A route that names no view.

import { h } from "../dom.js";
import { card } from "../widgets.js";

/** @import { View } from "../router.js" */

/** @type {View} */
export async function missingView() {
    return {
        title: "No such page",
        content: h(
            "div",
            { class: "view narrow" },
            card(
                null,
                h("h1", null, "No such page"),
                h("p", null, "There is nothing at this address. Use the search field, or go to the overview."),
                h("p", { class: "actions" }, h("a", { href: "#/", class: "button" }, "Go to the overview")),
            ),
        ),
    };
}
