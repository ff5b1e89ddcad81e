// Keccak-256 as Ethereum uses it (the padding is Keccak's own, not that of SHA-3).
// A lane of 64 bits is two 32-bit halves: BigInts would be far slower.

const RATE_BYTES = 136;
const ROUNDS = 24;

/** Rotation of each lane, and the lane that it moves to, walking through the state as the standard does. */
const [ROTATION, TARGET] = (() => {
    const rotation = new Uint8Array(25);
    const target = new Uint8Array(25);
    let [x, y] = [1, 0];
    for (let step = 0; step < 24; step += 1) {
        rotation[x + 5 * y] = (((step + 1) * (step + 2)) / 2) % 64;
        [x, y] = [y, (2 * x + 3 * y) % 5];
    }
    for (x = 0; x < 5; x += 1) {
        for (y = 0; y < 5; y += 1) target[x + 5 * y] = y + 5 * ((2 * x + 3 * y) % 5);
    }
    return [rotation, target];
})();

/** The round constants come from a shift register: bit 2^j - 1 of each is its next output. */
const CONSTANTS = (() => {
    /** @type {number[][]} */
    const constants = [];
    let register = 1;
    for (let round = 0; round < ROUNDS; round += 1) {
        const halves = [0, 0];
        for (let j = 0; j < 7; j += 1) {
            const bit = 2 ** j - 1;
            if (register & 1) halves[bit >> 5] |= 1 << (bit & 31);
            register = register & 0x80 ? ((register << 1) ^ 0x171) & 0xff : register << 1;
        }
        constants.push(halves);
    }
    return constants;
})();

/**
 * @param {Int32Array} low
 * @param {Int32Array} high
 * @param {Int32Array} columnsLow
 * @param {Int32Array} columnsHigh
 */
function mixColumns(low, high, columnsLow, columnsHigh) {
    for (let x = 0; x < 5; x += 1) {
        columnsLow[x] = low[x] ^ low[x + 5] ^ low[x + 10] ^ low[x + 15] ^ low[x + 20];
        columnsHigh[x] = high[x] ^ high[x + 5] ^ high[x + 10] ^ high[x + 15] ^ high[x + 20];
    }
    for (let x = 0; x < 5; x += 1) {
        const [left, right] = [(x + 4) % 5, (x + 1) % 5];
        const mixLow = columnsLow[left] ^ ((columnsLow[right] << 1) | (columnsHigh[right] >>> 31));
        const mixHigh = columnsHigh[left] ^ ((columnsHigh[right] << 1) | (columnsLow[right] >>> 31));
        for (let lane = x; lane < 25; lane += 5) {
            low[lane] ^= mixLow;
            high[lane] ^= mixHigh;
        }
    }
}

/**
 * @param {Int32Array} low
 * @param {Int32Array} high
 * @param {Int32Array} movedLow
 * @param {Int32Array} movedHigh
 */
function rotateAndMove(low, high, movedLow, movedHigh) {
    for (let lane = 0; lane < 25; lane += 1) {
        const bits = ROTATION[lane] & 31;
        let [first, second] = ROTATION[lane] & 32 ? [high[lane], low[lane]] : [low[lane], high[lane]];
        if (bits) {
            [first, second] = [(first << bits) | (second >>> (32 - bits)), (second << bits) | (first >>> (32 - bits))];
        }
        movedLow[TARGET[lane]] = first;
        movedHigh[TARGET[lane]] = second;
    }
}

/**
 * @param {Int32Array} half
 * @param {Int32Array} moved
 */
function combineRows(half, moved) {
    for (let row = 0; row < 25; row += 5) {
        for (let x = 0; x < 5; x += 1) {
            half[row + x] = moved[row + x] ^ (~moved[row + ((x + 1) % 5)] & moved[row + ((x + 2) % 5)]);
        }
    }
}

/**
 * @param {Int32Array} low
 * @param {Int32Array} high
 */
function permute(low, high) {
    const [movedLow, movedHigh] = [new Int32Array(25), new Int32Array(25)];
    const [columnsLow, columnsHigh] = [new Int32Array(5), new Int32Array(5)];
    for (const [constantLow, constantHigh] of CONSTANTS) {
        mixColumns(low, high, columnsLow, columnsHigh);
        rotateAndMove(low, high, movedLow, movedHigh);
        combineRows(low, movedLow);
        combineRows(high, movedHigh);
        low[0] ^= constantLow;
        high[0] ^= constantHigh;
    }
}

/** @param {Uint8Array} message */
function padded(message) {
    const bytes = new Uint8Array((Math.floor(message.length / RATE_BYTES) + 1) * RATE_BYTES);
    bytes.set(message);
    bytes[message.length] ^= 0x01;
    bytes[bytes.length - 1] ^= 0x80;
    return new DataView(bytes.buffer);
}

/**
 * The 32 bytes of the hash.
 * @param {Uint8Array} message
 */
export function keccak256(message) {
    const data = padded(message);
    const [low, high] = [new Int32Array(25), new Int32Array(25)];
    for (let offset = 0; offset < data.byteLength; offset += RATE_BYTES) {
        for (let lane = 0; lane < RATE_BYTES / 8; lane += 1) {
            low[lane] ^= data.getInt32(offset + 8 * lane, true);
            high[lane] ^= data.getInt32(offset + 8 * lane + 4, true);
        }
        permute(low, high);
    }
    const digest = new DataView(new ArrayBuffer(32));
    for (let lane = 0; lane < 4; lane += 1) {
        digest.setInt32(8 * lane, low[lane], true);
        digest.setInt32(8 * lane + 4, high[lane], true);
    }
    return new Uint8Array(digest.buffer);
}
