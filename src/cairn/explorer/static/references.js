// What a payment is for: the data of a transfer, and the text that it may be.
//
// The text is read here from the data, which the transaction's hash covers; what the node calls the reference is not
// shown. Anybody can write anything there. So a text that may look like another is marked, with its bytes beside it.

import { isHex, toBytes } from "./bytes.js";

/** @typedef {{ data?: string }} Carrier A transfer, as far as its data goes. */

/** What a transfer without data uses. */
export const TRANSFER_GAS = 21_000n;
const BYTE_GAS = 16n;
const ZERO_BYTE_GAS = 4n;

/** No control, format or unassigned characters, and no white space but the space itself. */
const PRINTABLE = /^(?:[^\p{C}\p{Z}]| )+$/u;
/** Printable, and yet nothing to see: fillers, joiners, variation selectors, the empty cell of Braille. */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\u2800]/u;
const LATIN = /\p{Script=Latin}/u;
const OTHER_LETTER = /[^\P{L}\p{Script=Latin}]/u;
/** Emoji and currencies have no twins in ASCII. */
const MAY_HAVE_TWIN = /[^\x20-\x7e\p{So}\p{Sc}]/u;
const UNUSUAL_SPACE = /^ | $| {2}/;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The gas that a transfer with this data uses, by Ethereum's rule for calldata.
 * @param {Uint8Array} data
 */
export function intrinsicGas(data) {
    const zeros = BigInt(data.filter((byte) => byte === 0).length);
    return TRANSFER_GAS + BYTE_GAS * (BigInt(data.length) - zeros) + ZERO_BYTE_GAS * zeros;
}

/**
 * The bytes of a transfer's data. Throws a TypeError if they are not hexadecimal.
 * @param {Carrier} transfer
 */
export const dataOf = ({ data }) => (data === undefined ? new Uint8Array() : toBytes(data));

/**
 * The text that bytes are in UTF-8, whatever it has in it; null if they are none.
 * @param {Uint8Array} bytes
 */
export function decodedText(bytes) {
    try {
        return decoder.decode(bytes);
    } catch {
        return null;
    }
}

/**
 * The text that data is, if it can be shown as one; null otherwise, including for what is no data.
 * @param {string} data
 */
export function textOf(data) {
    const text = isHex(data) ? decodedText(toBytes(data)) : null;
    return text !== null && PRINTABLE.test(text) ? text : null;
}

/**
 * The first character that cannot be part of a reference, such as U+202E; null if there is none.
 * @param {string} text
 */
export function hiddenIn(text) {
    const hidden = [...text].find((character) => !PRINTABLE.test(character));
    return hidden === undefined ? null : `U+${hidden.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`;
}

/**
 * Why a text may not be what it looks like, in sentences.
 * @param {string} text
 */
export function doubtsOf(text) {
    const doubts = [];
    if (INVISIBLE.test(text)) doubts.push("It has characters that cannot be seen.");
    if (LATIN.test(text) && OTHER_LETTER.test(text)) doubts.push("It mixes alphabets: letters may look like others.");
    else if (MAY_HAVE_TWIN.test(text)) doubts.push("It has characters beyond ASCII: they may look like others.");
    if (UNUSUAL_SPACE.test(text)) doubts.push("It begins or ends with a space, or has several in a row.");
    return doubts;
}
