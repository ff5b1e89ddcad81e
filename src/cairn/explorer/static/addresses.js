// Addresses: told apart from other text, and spelled with the checksum of EIP-55.

import { toHex } from "./bytes.js";
import { keccak256 } from "./verify.mjs";

const ADDRESS = /^0x[0-9a-f]{40}$/i;
const REMEMBERED = 2_000;
/** @type {Map<string, string>} */
const spelled = new Map();
const encoder = new TextEncoder();

/** @param {string} text */
export const isAddress = (text) => ADDRESS.test(text);

/** @param {string} lower */
function spell(lower) {
    const digits = lower.slice(2);
    const mask = keccak256(toHex(encoder.encode(digits)).slice(2));
    const cased = [...digits].map((digit, index) => (mask[index] >= "8" ? digit.toUpperCase() : digit));
    return `0x${cased.join("")}`;
}

/**
 * The address with its checksum in the case of its letters.
 * @param {string} address
 */
export function checksummed(address) {
    const lower = address.toLowerCase();
    const known = spelled.get(lower);
    if (known !== undefined) return known;
    if (spelled.size >= REMEMBERED) spelled.clear();
    const spelling = spell(lower);
    spelled.set(lower, spelling);
    return spelling;
}

/**
 * Whether the text is an address, but for the case of its letters.
 * @param {string} text
 */
export const hasWrongChecksum = (text) => isAddress(text) && addressProblem(text) !== null;

/**
 * Why the text is no address to send to, or null when it is one.
 * @param {string} text
 */
export function addressProblem(text) {
    if (!isAddress(text)) return "An address is 0x and 40 hexadecimal digits.";
    const letters = text.slice(2);
    const isPlain = letters === letters.toLowerCase() || letters === letters.toUpperCase();
    return isPlain || text === checksummed(text)
        ? null
        : "The checksum does not fit: one of the characters is mistyped.";
}
