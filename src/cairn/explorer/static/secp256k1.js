// Whose key made a signature: the recovery of secp256k1's public keys, with the integers that the browser has.

import { joined, toBytes, toHex } from "./bytes.js";
import { keccak256 } from "./keccak.js";

const PRIME = 2n ** 256n - 2n ** 32n - 977n;
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const GENERATOR = {
    x: 0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n,
    y: 0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8n,
};

/** @type {(value: bigint, modulus: bigint) => bigint} */
const modulo = (value, modulus) => ((value % modulus) + modulus) % modulus;

/**
 * @param {bigint} base
 * @param {bigint} exponent
 * @param {bigint} modulus
 */
function power(base, exponent, modulus) {
    let result = 1n;
    for (; exponent > 0n; exponent >>= 1n, base = (base * base) % modulus) {
        if (exponent & 1n) result = (result * base) % modulus;
    }
    return result;
}

/**
 * @param {bigint} value
 * @param {bigint} modulus
 */
function inverse(value, modulus) {
    let [low, high, lowTimes, highTimes] = [modulo(value, modulus), modulus, 1n, 0n];
    while (low > 1n) {
        const whole = high / low;
        [low, high, lowTimes, highTimes] = [high - whole * low, low, highTimes - whole * lowTimes, lowTimes];
    }
    return modulo(lowTimes, modulus);
}

/** @typedef {{ x: bigint, y: bigint } | null} Point Null is the point at infinity. */

/**
 * @param {Point} one
 * @param {Point} other
 * @returns {Point}
 */
function add(one, other) {
    if (one === null) return other;
    if (other === null) return one;
    if (one.x === other.x && one.y !== other.y) return null;
    const slope =
        one.x === other.x
            ? 3n * one.x * one.x * inverse(2n * one.y, PRIME)
            : (other.y - one.y) * inverse(other.x - one.x, PRIME);
    const x = modulo(slope * slope - one.x - other.x, PRIME);
    return { x, y: modulo(slope * (one.x - x) - one.y, PRIME) };
}

/**
 * @param {Point} point
 * @param {bigint} factor
 */
function times(point, factor) {
    /** @type {Point} */
    let sum = null;
    for (; factor > 0n; factor >>= 1n, point = add(point, point)) {
        if (factor & 1n) sum = add(sum, point);
    }
    return sum;
}

/** @param {Uint8Array} bytes */
const integerOf = (bytes) => BigInt(toHex(bytes));
/** @param {bigint} value */
const wordOf = (value) => toBytes(`0x${value.toString(16).padStart(64, "0")}`);

/**
 * The address whose key made the signature (r, s, parity: 65 bytes) over the digest. Null when none can have.
 * @param {Uint8Array} digest
 * @param {Uint8Array} signature
 */
export function recoverAddress(digest, signature) {
    if (signature.length !== 65 || signature[64] > 1) return null;
    const [r, s] = [integerOf(signature.slice(0, 32)), integerOf(signature.slice(32, 64))];
    if (r === 0n || s === 0n || r >= ORDER || s >= ORDER) return null;
    const square = (r ** 3n + 7n) % PRIME;
    const root = power(square, (PRIME + 1n) / 4n, PRIME);
    if ((root * root) % PRIME !== square) return null;
    const y = (root & 1n) === BigInt(signature[64]) ? root : PRIME - root;
    const share = inverse(r, ORDER);
    const key = add(
        times({ x: r, y }, modulo(s * share, ORDER)),
        times(GENERATOR, modulo(-integerOf(digest) * share, ORDER)),
    );
    return key === null ? null : toHex(keccak256(joined(wordOf(key.x), wordOf(key.y))).slice(12));
}
