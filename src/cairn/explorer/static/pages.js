// Lists that go back and forth: which of their items a page shows, of how many, and links to the pages beside it.

import { grouped } from "./amounts.js";
import { href } from "./routes.js";
import { oldestCursor } from "./walk.js";
import { counted, pager } from "./widgets.js";

/** @import { Query, Route } from "./routes.js" */

export const PAGE = 25;

/**
 * A page between two cursors. `oldest` is the lowest height that the list can have.
 * @typedef {{ items: unknown[], after: string | null, before: string | null, oldest: bigint }} Between
 */

/**
 * The page as it is when nothing older follows: the node names what would follow whatever is asked for backwards.
 * @template {Between} P
 * @param {Route} route
 * @param {P} page
 * @returns {P}
 */
export const knownEnd = ({ query }, page) =>
    query.get("before") === oldestCursor(page.oldest) ? { ...page, after: null } : page;

/**
 * The number of the first item on the page, counted from the newest; null where that is not known: the end is reached
 * without counting, unless the node says how many there are.
 * @param {Route} route
 * @param {Between & { total: bigint | null }} page
 */
export function firstNumber({ query }, { items, after, before, total }) {
    if (before === null) return 1;
    const number = Number.parseInt(query.get("n") ?? "", 10);
    if (number > 1) return number;
    return after === null && total !== null ? Math.max(1, Number(total) - items.length + 1) : null;
}

/**
 * Which items the page shows, and of how many: "26 to 50 of 61".
 * @param {number | null} first
 * @param {Between} page
 * @param {bigint | null} total
 */
export function rangeWords(first, { items, after }, total) {
    if (items.length === 0) return "";
    if (first === null) return `${after === null ? "The oldest " : ""}${counted(items.length, "transaction")}`;
    const last = first + items.length - 1;
    const all = total ?? (after === null ? BigInt(last) : null);
    const range = `${grouped(first)} to ${grouped(last)}`;
    return all === null ? `Transactions ${range}` : `Transactions ${range} of ${grouped(all)}`;
}

/**
 * Links to the pages beside this one; none if there is only one.
 * @param {string} label
 * @param {string} path
 * @param {Query} filters
 * @param {Between} page
 * @param {number | null} first
 */
export function cursorPager(label, path, filters, { items, after, before, oldest }, first) {
    if (after === null && before === null) return null;
    /** @param {Query} cursor */
    const link = (cursor) => href(path, { ...filters, ...cursor });
    const newer = first === null ? null : first - PAGE;
    const older = first === null ? null : first + items.length;
    return pager(
        label,
        ["Newest", before !== null && link({})],
        ["Newer", before !== null && link({ before, n: newer !== null && newer > 1 ? newer : null })],
        ["Older", after !== null && link({ after, n: older })],
        ["Oldest", after !== null && link({ before: oldestCursor(oldest) })],
    );
}
