// A route that names no view.

import { h } from "../dom.js";
import { wordsView } from "../widgets.js";

/** @import { View } from "../router.js" */

/** @type {View} */
export async function missingView() {
    const words = "There is nothing at this address. Use the search field, or go to the overview.";
    return wordsView("No such page", [h("p", null, words)]);
}
