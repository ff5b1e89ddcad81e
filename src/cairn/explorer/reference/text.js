// Texts of the descriptions.

import { h } from "../static/dom.js";

/** @import { Child } from "../static/dom.js" */

/**
 * A text, with what stands in backticks as code.
 * @param {string} text
 * @returns {Child[]}
 */
export const marked = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));

/** @param {string} text */
export const paragraphs = (text) => text.split("\n\n").map((each) => h("p", null, marked(each.replaceAll("\n", " "))));

/**
 * What a program writes, as it stands. It can be reached by keys, because it may have more to it than fits.
 * @type {(text: string, label: string) => HTMLElement}
 */
export const output = (text, label) => h("pre", { tabindex: "0", role: "group", "aria-label": label }, text);
