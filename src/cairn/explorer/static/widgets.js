// The pieces that views are made of.

import { checksummed } from "./addresses.js";
import { asFailure, getFile } from "./api.js";
import { coinsWord, cutAmount, describeAmount, formatAmount, grouped, plainAmount } from "./amounts.js";
import { knownTotals, MOST_ADDED_UP } from "./contents.js";
import { announce, fill, h, s } from "./dom.js";
import { parseExact, pretty } from "./exact.js";
import { nameOf } from "./names.js";
import { doubtsOf, textOf } from "./references.js";
import { href } from "./routes.js";
import { avatar } from "./stones.js";

/** @import { Header, Listed } from "./api.js" */
/** @import { Unit } from "./amounts.js" */
/** @import { Totals } from "./contents.js" */
/** @import { Child } from "./dom.js" */
/** @import { Carrier } from "./references.js" */
/** @import { Shown } from "./router.js" */
/** @import { Route } from "./routes.js" */

/**
 * The heading, the cell of an item, and the class of both.
 * @template T
 * @typedef {[heading: string, cell: (item: T) => Child, kind?: string]} Column
 */

const COPIED_MS = 1_500;
const LAST_DATE_MS = 8.64e15;

/**
 * The ends of a hash or an address; the whole is in the title and on the page that it leads to.
 * @param {string} text
 */
export const shortened = (text, ends = 4) => `${text.slice(0, ends + 2)}…${text.slice(-ends)}`;

/** @type {(count: bigint | number, noun: string) => string} */
export const counted = (count, noun) => `${grouped(count)} ${noun}${BigInt(count) === 1n ? "" : "s"}`;

/** @param {number} seconds */
function ago(seconds) {
    if (seconds < 1) return "just now";
    if (seconds < 60) return `${seconds} s ago`;
    if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`;
    if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ago`;
    return `${Math.floor(seconds / 86_400)} d ago`;
}

/** @param {HTMLElement} element */
const sinceThen = (element) => ago(Math.max(0, Math.floor(Date.now() / 1_000) - Number(element.dataset.at)));

/**
 * The date of a Unix time in seconds; one beyond what the calendar of JavaScript has is its last day.
 * @param {bigint} timestamp
 */
export const dateOf = (timestamp) => new Date(Math.min(Number(timestamp) * 1_000, LAST_DATE_MS));

/**
 * How long ago a Unix time is; kept up to date while it is on the page.
 * @param {bigint} timestamp
 */
export function age(timestamp) {
    const date = dateOf(timestamp);
    const element = h("time", { datetime: date.toISOString(), title: date.toLocaleString(), "data-at": timestamp });
    element.textContent = sinceThen(element);
    return element;
}

setInterval(() => {
    for (const element of document.querySelectorAll("time")) {
        if (element.dataset.at === undefined) continue;
        const text = sinceThen(element);
        if (element.textContent !== text) element.textContent = text;
    }
}, 1_000);

/** @param {bigint} height */
export const blockLink = (height) => h("a", { href: href(`/block/${height}`), class: "number" }, grouped(height));

/** @type {(kind: "block" | "tx", hash: string, ends?: number) => HTMLElement} */
export const hashLink = (kind, hash, ends) =>
    h("a", { href: href(`/${kind}/${hash}`), class: "code", title: hash }, shortened(hash, ends));

/**
 * An account by its name, or by the ends of its address.
 * @param {string} address
 */
export function accountLink(address) {
    const [shown, name] = [checksummed(address), nameOf(address)];
    return h(
        "a",
        { href: href(`/account/${shown}`), class: "account", title: shown },
        avatar(address, 20),
        name === null ? h("span", { class: "code" }, shortened(shown, 4)) : h("span", { class: "name" }, name),
    );
}

/**
 * An account with its name, its whole address, and a button that copies it.
 * @param {string} address
 */
export function wholeAccount(address) {
    const [shown, name] = [checksummed(address), nameOf(address)];
    const words = h(
        "span",
        null,
        name !== null && h("strong", { class: "name" }, name, " "),
        h("span", { class: "code whole" }, shown),
    );
    const link = h("a", { href: href(`/account/${shown}`), class: "account" }, avatar(address, 20), words);
    return withCopy(link, shown, name === null ? "address" : `address of ${name}`);
}

/**
 * An amount with its unit.
 * @param {bigint} wei
 */
export const amount = (wei) => amountIn(wei, "coins", h("span", { class: "unit" }, ` ${coinsWord(wei)}`));

/**
 * An amount with its unit, and a button that copies every digit of it; all digits below, unless they are seen already.
 * @param {bigint} wei
 * @param {string} what
 */
export const amountWithCopy = (wei, what) => [
    withCopy(amount(wei), plainAmount(wei), what),
    // The amount itself is read out with every digit.
    cutAmount(wei, "coins").rest && h("span", { class: "digits whole", "aria-hidden": "true" }, describeAmount(wei)),
];

/**
 * An amount in a column that names its unit.
 * @type {(wei: bigint, unit?: Unit) => HTMLElement}
 */
export const bareAmount = (wei, unit = "coins") => amountIn(wei, unit);

/**
 * About six digits are seen. The rest is there without a width, so that whoever selects and copies the amount, or has
 * it read out, gets all of it.
 * @type {(wei: bigint, unit: Unit, ...more: Child[]) => HTMLElement}
 */
function amountIn(wei, unit, ...more) {
    const { shown, rest, brief } = cutAmount(wei, unit);
    const title = unit === "coins" ? describeAmount(wei) : `${formatAmount(wei, unit)} ${unit}`;
    const [whole, fraction] = shown.split(".");
    return h(
        "span",
        { class: "amount", title, "data-wei": wei },
        whole,
        fraction && h("span", { class: "fraction" }, `.${fraction}`),
        rest && h("span", { class: "cut", "data-brief": brief ?? "…" }, h("span", { class: "rest" }, rest)),
        ...more,
    );
}

/**
 * How much of the gas of a block its transactions use.
 * @param {Pick<Header, "gasUsed" | "gasLimit">} block
 */
export function fullness({ gasUsed, gasLimit }) {
    const percent = gasLimit ? Number((gasUsed * 10_000n) / gasLimit) / 100 : 0;
    const digits = percent >= 10 || percent === 0 ? 0 : percent >= 1 ? 1 : 2;
    const title = `${grouped(gasUsed)} of ${grouped(gasLimit)} gas`;
    return h("span", { class: "fullness", title }, `${percent.toFixed(digits)} %`);
}

const BAR_WIDTH = 40;

/**
 * The column of a list of blocks that counts their transactions. A bar compares each with the largest of the list.
 * @param {Header[]} blocks
 * @returns {Column<Header>}
 */
export function transactionsColumn(blocks) {
    const most = blocks.reduce((largest, { transactionCount }) => Math.max(largest, Number(transactionCount)), 1);
    /** @param {Header} block */
    const cell = ({ transactionCount: count }) => [
        s(
            "svg",
            { class: "share", viewBox: `0 0 ${BAR_WIDTH} 6`, width: BAR_WIDTH, height: 6, "aria-hidden": "true" },
            s("rect", { class: "track", width: BAR_WIDTH, height: 6, rx: 3 }),
            count > 0n && s("rect", { class: "level", width: Math.max(3, (BAR_WIDTH * Number(count)) / most), height: 6, rx: 3 }),
        ),
        h("span", null, grouped(count)),
    ];
    return ["Transactions", cell, "end"];
}

export const BARS_MEAN = "Each bar compares a block's transactions with those of the largest block in the list.";

/**
 * What the transactions of a block add up to; three dots until it is known.
 * @param {Header} block
 * @param {keyof Totals} part
 */
function totalOf(block, part) {
    const totals = knownTotals(block);
    if (totals) return bareAmount(totals[part]);
    const why = `Not added up: more than ${grouped(MOST_ADDED_UP)} transactions`;
    return block.transactionCount > MOST_ADDED_UP ? h("span", { class: "unit", title: why }, "many") : "…";
}

/** @param {Header} block */
export const valueOf = (block) => totalOf(block, "value");

/** @param {Header} block */
export const feesOf = (block) => totalOf(block, "fees");

/**
 * When a block was made. The genesis block has the time of the chain's rules, which says little.
 * @param {Pick<Header, "blockHeight" | "timestamp">} block
 */
export const blockAge = ({ blockHeight, timestamp }) => (blockHeight === 0n ? "genesis" : age(timestamp));

/** @param {string} text */
async function copy(text) {
    // Pages over plain HTTP have no clipboard of their own.
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copyBySelection(text);
}

/** @param {string} text */
function copyBySelection(text) {
    const area = h("textarea", { class: "unseen" }, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
}

/**
 * @param {string} text
 * @param {string} what
 */
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

/** @type {(shown: HTMLElement, text: string, what: string) => HTMLElement} */
export const withCopy = (shown, text, what) => h("span", { class: "copyable" }, shown, copyButton(text, what));

/**
 * A long value in full, and a button that copies it.
 * @type {(text: string, what: string) => HTMLElement}
 */
export const copyable = (text, what) => withCopy(h("span", { class: "code whole" }, text), text, what);

/**
 * What the node itself answers about what a view shows, read once it is asked for.
 * @param {string} path
 * @param {AbortSignal} signal
 */
export function jsonCard(path, signal) {
    const place = h("div", { class: "snippet" });
    const read = async () => {
        try {
            const text = pretty(parseExact(await getFile(path, signal)));
            fill(place, h("pre", { role: "region", "aria-label": "JSON" }, text), copyButton(text, "JSON"));
        } catch (failure) {
            if (!signal.aborted) fill(place, h("p", { class: "hint" }, asFailure(failure).message));
        }
    };
    const details = h("details", null, h("summary", null, "JSON"), place);
    details.addEventListener("toggle", () => details.open && read());
    return h("section", { class: "card json" }, details, h("a", { href: path, class: "code" }, `GET ${path}`));
}

/**
 * A link with the whole hash of a block, where there is room for it.
 * @param {string} hash
 */
export const wholeBlockHash = (hash) =>
    withCopy(h("a", { href: href(`/block/${hash}`), class: "code whole" }, hash), hash, "block hash");

/**
 * Names and values; those that are not there are left out.
 * @type {(...pairs: ([name: string, value: Child] | false | null)[]) => HTMLElement}
 */
export const facts = (...pairs) =>
    h(
        "dl",
        { class: "facts" },
        pairs.filter((pair) => pair !== null && pair !== false).map(([name, value]) => fact(name, value)),
    );

/** @type {(name: string, value: Child) => HTMLElement} */
const fact = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));

/** @type {(title: string, ...content: Child[]) => Shown} */
export const view = (title, ...content) => ({ title, content: h("div", { class: "view" }, ...content) });

/**
 * A view for reading or filling in, not wider than a person likes to read.
 * @type {(title: string, ...content: Child[]) => Shown}
 */
export const narrowView = (title, ...content) => ({ title, content: h("div", { class: "view narrow" }, ...content) });

/**
 * A view that has nothing but words, and a way out; `actions` are others.
 * @type {(title: string, words: Child[], actions?: Child) => Shown}
 */
export function wordsView(title, words, actions) {
    const out = h("a", { href: "#/", class: "button" }, "Go to the overview");
    return narrowView(title, card(null, h("h1", null, title), words, h("p", { class: "actions" }, out, actions)));
}

/** @type {(heading: Child, ...beside: Child[]) => HTMLElement} */
export const pageHead = (heading, ...beside) => h("div", { class: "page-head" }, h("h1", null, heading), ...beside);

/** @type {(heading: Child, ...content: Child[]) => HTMLElement} */
export const card = (heading, ...content) =>
    h("section", { class: "card" }, heading && h("h2", null, heading), ...content);

/**
 * A mark of one word: "confirmed", "pending".
 * @type {(kind: string, text: string) => HTMLElement}
 */
export const badge = (kind, text) => h("span", { class: `badge ${kind}` }, text);

/**
 * What a payment is for, where there is little room: its text, which may be cut off, or the ends of its bytes. Its
 * direction stays its own (bdi), so that it cannot move what stands beside it.
 * @param {Carrier} transfer
 */
export function briefReference({ data }) {
    if (data === undefined) return null;
    const text = textOf(data);
    if (text === null) return h("bdi", { class: "code", title: "Not text" }, data.length > 18 ? shortened(data) : data);
    const doubts = doubtsOf(text).join(" ");
    const mark = doubts && h("span", { class: "badge doubt", title: doubts }, "Look closely");
    return h("span", { class: "brief" }, h("bdi", { class: "reference" }, text), mark);
}

/**
 * The column of references, if one of these has any.
 * @template {Carrier} T
 * @param {T[]} items
 * @returns {Column<T>[]}
 */
export const referenceColumns = (items) =>
    items.some(({ data }) => data !== undefined) ? [["Reference", briefReference, "for"]] : [];

/**
 * A table whose rows wrap on a phone. The roles are written out because browsers forget them once a style turns
 * the rows into blocks. `empty` stands in its place when there are no items.
 * @template T
 * @param {string} caption
 * @param {Column<T>[]} columns
 * @param {T[]} items
 * @param {string} [empty]
 */
export function table(caption, columns, items, empty) {
    if (items.length === 0) return h("p", { class: "empty" }, empty);
    /** @param {T} item */
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

/**
 * A button for what came since the view was made: the rows do not move while someone reads them.
 * @param {() => unknown} again
 */
export function freshNotice(again) {
    const button = h("button", { type: "button", class: "fresh", hidden: true, onclick: again });
    /** @param {string} text */
    const show = (text) => {
        button.hidden = !text;
        button.textContent = text;
    };
    return { element: h("div", { class: "fresh-place" }, button), show };
}

/**
 * Links to what is beside this; `label` tells the row from others. One without a target is shown as not available.
 * @param {string} label
 * @param {[text: string, target: string | false | null][]} links
 */
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

/**
 * Which of so many pages a route asks for: the nearest that there is.
 * @param {Route} route
 * @param {number} pages
 */
export const pageOf = ({ query }, pages) =>
    Math.min(pages, Math.max(1, Number.parseInt(query.get("page") ?? "", 10) || 1));

/**
 * The number of a page and links to others; nothing when there is only one.
 * @param {string} label
 * @param {string} path
 * @param {number} page
 * @param {number} pages
 */
export function numberedPages(label, path, page, pages) {
    if (pages === 1) return null;
    /** @param {number} number */
    const target = (number) => number !== page && number >= 1 && number <= pages && href(path, { page: number });
    return [
        h("p", { class: "page-number" }, `Page ${grouped(page)} of ${grouped(pages)}`),
        pager(
            label,
            ["First", target(1)],
            ["Previous", target(page - 1)],
            ["Next", target(page + 1)],
            ["Last", target(pages)],
        ),
    ];
}

/**
 * The columns in which every list of transactions shows one; `more` stand before the amount.
 * @template {Listed} T
 * @param {Column<T>[]} more
 * @returns {Column<T>[]}
 */
export const transactionColumns = (...more) => [
    ["Transaction", (tx) => hashLink("tx", tx.txHash)],
    ["From", (tx) => accountLink(tx.from)],
    ["To", (tx) => accountLink(tx.to)],
    ...more,
    ["Amount (coins)", (tx) => bareAmount(tx.value), "end"],
];
