// The pieces that views are made of.

import { checksummed } from "./addresses.js";
import { fittingUnit, grouped, splitAmount, UNITS, unitWord } from "./amounts.js";
import { announce } from "./announcer.js";
import { fill, h, s } from "./dom.js";
import { href } from "./routes.js";
import { avatar } from "./stones.js";

const COPIED_MS = 1_500;
const LAST_DATE_MS = 8.64e15;

/** The ends of a hash or an address; the whole is in the title and on the page that it leads to. */
export const shortened = (text, ends = 6) => `${text.slice(0, ends + 2)}…${text.slice(-ends)}`;

export const counted = (count, noun) => `${grouped(count)} ${noun}${BigInt(count) === 1n ? "" : "s"}`;

function ago(seconds) {
    if (seconds < 1) return "just now";
    if (seconds < 60) return `${seconds} s ago`;
    if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`;
    if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ago`;
    return `${Math.floor(seconds / 86_400)} d ago`;
}

const sinceThen = (element) => ago(Math.max(0, Math.floor(Date.now() / 1_000) - Number(element.dataset.at)));

/** The date of a Unix time in seconds; one beyond what the calendar of JavaScript has is its last day. */
export const dateOf = (timestamp) => new Date(Math.min(Number(timestamp) * 1_000, LAST_DATE_MS));

/** How long ago a Unix time is; kept up to date while it is on the page. */
export function age(timestamp) {
    const date = dateOf(timestamp);
    const element = h("time", { datetime: date.toISOString(), title: date.toLocaleString(), "data-at": timestamp });
    element.textContent = sinceThen(element);
    return element;
}

setInterval(() => {
    for (const element of document.querySelectorAll("time[data-at]")) {
        const text = sinceThen(element);
        if (element.textContent !== text) element.textContent = text;
    }
}, 1_000);

export const blockLink = (height) => h("a", { href: href(`/block/${height}`), class: "number" }, grouped(height));

export const hashLink = (kind, hash) =>
    h("a", { href: href(`/${kind}/${hash}`), class: "code", title: hash }, shortened(hash));

export function accountLink(address) {
    const shown = checksummed(address);
    return h(
        "a",
        { href: href(`/account/${shown}`), class: "code account", title: shown },
        avatar(address, 20),
        shortened(shown, 4),
    );
}

/** An amount with its unit; every digit of it, the fraction set back. */
export function amount(wei) {
    const unit = fittingUnit(wei);
    const [whole, fraction] = splitAmount(wei, UNITS[unit]);
    return h(
        "span",
        { class: "amount", title: `${grouped(wei)} wei` },
        whole,
        fraction && h("span", { class: "fraction" }, `.${fraction}`),
        h("span", { class: "unit" }, ` ${unitWord(wei, unit)}`),
    );
}

async function copy(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // Pages over plain HTTP have no clipboard of their own.
    const area = h("textarea", { class: "unseen" }, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
}

export function copyButton(text, what) {
    const sign = () =>
        s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: "M5 5V2h9v9h-3M2 5h9v9H2z" }));
    const button = h(
        "button",
        { type: "button", class: "copy", "aria-label": `Copy ${what}`, title: `Copy ${what}` },
        sign(),
    );
    button.addEventListener("click", async () => {
        await copy(text);
        fill(button, "✓");
        announce(`Copied ${what}`);
        setTimeout(() => fill(button, sign()), COPIED_MS);
    });
    return button;
}

/** A long value in full, and a button that copies it. */
export const copyable = (text, what) =>
    h("span", { class: "copyable" }, h("span", { class: "code whole" }, text), copyButton(text, what));

/** Names and values; a value may be text, an element or a list of them. */
export const facts = (...pairs) =>
    h(
        "dl",
        { class: "facts" },
        pairs.filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
    );

export const card = (heading, ...content) =>
    h("section", { class: "card" }, heading && h("h2", null, heading), ...content);

/** A mark of one word: "confirmed", "pending". */
export const badge = (kind, text) => h("span", { class: `badge ${kind}` }, text);

/**
 * A table that turns into cards on a phone. `columns` are [heading, cell of an item, class]. The roles are written out
 * because browsers forget them once a style turns the rows into blocks.
 */
export function table(caption, columns, items, empty) {
    if (items.length === 0) return h("p", { class: "empty" }, empty);
    const cells = (item) =>
        columns.map(([heading, cell, kind]) =>
            h("td", { role: "cell", "data-label": heading, class: kind }, cell(item)),
        );
    return h(
        "table",
        { role: "table" },
        h("caption", { class: "unseen" }, caption),
        h(
            "thead",
            { role: "rowgroup" },
            h(
                "tr",
                { role: "row" },
                columns.map(([heading, , kind]) =>
                    h("th", { role: "columnheader", scope: "col", class: kind }, heading),
                ),
            ),
        ),
        h(
            "tbody",
            { role: "rowgroup" },
            items.map((item) => h("tr", { role: "row" }, cells(item))),
        ),
    );
}

/** A button for what came since the view was made, rather than push the rows away under the reader's eyes. */
export function freshNotice(again) {
    const button = h("button", { type: "button", class: "fresh", hidden: true, onclick: again });
    const show = (text) => {
        button.hidden = !text;
        button.textContent = text;
    };
    return { element: h("div", { class: "fresh-place" }, button), show };
}

/** Links to what is beside this; `label` tells the row from others. One without a target is shown as not available. */
export function pager(label, ...links) {
    return h(
        "nav",
        { class: "pager", "aria-label": label },
        links.map(([text, target]) =>
            target
                ? h("a", { href: target, class: "button" }, text)
                : h("span", { class: "button", "aria-disabled": "true" }, text),
        ),
    );
}

/** The columns in which every list of transactions shows one; `more` stand before the amount. */
export const transactionColumns = (...more) => [
    ["Transaction", (tx) => hashLink("tx", tx.txHash)],
    ["From", (tx) => accountLink(tx.from)],
    ["To", (tx) => accountLink(tx.to)],
    ...more,
    ["Amount", (tx) => amount(tx.value), "end"],
];
