// What a screen reader is told besides what has the focus: rarely, and never every block.

import { find } from "./dom.js";

/** @param {string} text */
export function announce(text) {
    find(document, "#announcer", HTMLElement).textContent = text;
}
