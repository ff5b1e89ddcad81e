// SHA-256 (FIPS 180-4). Our own, because crypto.subtle is missing on pages that come over plain HTTP.

const BLOCK_BYTES = 64;

/** @param {number} count */
function firstPrimes(count) {
    /** @type {number[]} */
    const primes = [];
    for (let candidate = 2; primes.length < count; candidate += 1) {
        if (primes.every((prime) => candidate % prime !== 0)) primes.push(candidate);
    }
    return primes;
}

/**
 * The first 32 bits of the fraction of a root, as the standard defines its constants.
 * @param {number} root
 */
const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;

const START = firstPrimes(8).map((prime) => fraction(Math.sqrt(prime)));
const ROUND = firstPrimes(64).map((prime) => fraction(Math.cbrt(prime)));

/** @type {(word: number, bits: number) => number} */
const rotate = (word, bits) => (word >>> bits) | (word << (32 - bits));

/** @param {Uint8Array} message */
function padded(message) {
    const size = Math.ceil((message.length + 9) / BLOCK_BYTES) * BLOCK_BYTES;
    const bytes = new Uint8Array(size);
    bytes.set(message);
    bytes[message.length] = 0x80;
    new DataView(bytes.buffer).setBigUint64(size - 8, BigInt(message.length) * 8n);
    return new DataView(bytes.buffer);
}

/**
 * @param {Int32Array} words
 * @param {DataView} data
 * @param {number} offset
 */
function expand(words, data, offset) {
    for (let index = 0; index < 16; index += 1) words[index] = data.getInt32(offset + 4 * index);
    for (let index = 16; index < 64; index += 1) {
        const [early, late] = [words[index - 15], words[index - 2]];
        const small = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3);
        const large = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10);
        words[index] = words[index - 16] + small + words[index - 7] + large;
    }
}

/**
 * @param {Int32Array} state
 * @param {Int32Array} words
 */
function compress(state, words) {
    let [a, b, c, d, e, f, g, h] = state;
    for (let index = 0; index < 64; index += 1) {
        const upper = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        const first = (h + upper + ((e & f) ^ (~e & g)) + ROUND[index] + words[index]) | 0;
        const lower = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        const second = (lower + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, index) => {
        state[index] += word;
    });
}

/**
 * The 32 bytes of the hash.
 * @param {Uint8Array} message
 */
export function sha256(message) {
    const data = padded(message);
    const state = Int32Array.from(START);
    const words = new Int32Array(64);
    for (let offset = 0; offset < data.byteLength; offset += BLOCK_BYTES) {
        expand(words, data, offset);
        compress(state, words);
    }
    const digest = new DataView(new ArrayBuffer(32));
    state.forEach((word, index) => digest.setInt32(4 * index, word));
    return new Uint8Array(digest.buffer);
}
