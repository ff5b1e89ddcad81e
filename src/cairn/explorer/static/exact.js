// JSON whose integers stay exact: each becomes a BigInt, because a JavaScript number rounds from 2^53 on.

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const WHOLE = /^-?\d+$/;
const MARK = "$integer";

/**
 * What JSON.parse gives, with a BigInt for every integer. Throws a SyntaxError as it does.
 * @param {string} text
 */
export function parseExact(text) {
    const marked = text.replace(TOKEN, (token) => (WHOLE.test(token) ? `{"${MARK}":"${token}"}` : token));
    return JSON.parse(marked, (_, value) => (value?.[MARK] === undefined ? value : BigInt(value[MARK])));
}

/**
 * JSON of what `parseExact` gives: every integer with all its digits.
 * @param {unknown} value
 * @returns {string}
 */
export function pretty(value, indent = "") {
    if (typeof value === "bigint") return String(value);
    if (value === null || typeof value !== "object") return JSON.stringify(value);
    const deeper = `${indent}  `;
    const isList = Array.isArray(value);
    const items = Object.entries(value).map(
        ([name, each]) => (isList ? "" : `${JSON.stringify(name)}: `) + pretty(each, deeper),
    );
    const [open, close] = isList ? ["[", "]"] : ["{", "}"];
    return items.length ? `${open}\n${deeper}${items.join(`,\n${deeper}`)}\n${indent}${close}` : open + close;
}
