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
