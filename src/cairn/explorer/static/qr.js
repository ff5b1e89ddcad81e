// QR codes of up to 53 bytes: version 3 with error correction L (ISO/IEC 18004), which is enough for an address.

import { s } from "./dom.js";

const SIZE = 29;
const DATA_BYTES = 55;
const CHECK_BYTES = 15;
const ALIGNMENT = 22;
/** Level L and mask 0, with their own check bits. */
const FORMAT = 0b111011111000100;
const QUIET = 4;

// The field of 256 elements: powers of 2, and which power each element is.
const POWERS = new Uint8Array(512);
const LOGARITHMS = new Uint8Array(256);
for (let exponent = 0, element = 1; exponent < 255; exponent += 1) {
    POWERS[exponent] = element;
    POWERS[exponent + 255] = element;
    LOGARITHMS[element] = exponent;
    element = element & 128 ? (element << 1) ^ 0x11d : element << 1;
}

/** @type {(one: number, other: number) => number} */
const product = (one, other) => (one && other ? POWERS[LOGARITHMS[one] + LOGARITHMS[other]] : 0);

/** The polynomial by which check bytes are the remainder, without its leading 1. */
function generator() {
    let factors = [1];
    for (let root = 0; root < CHECK_BYTES; root += 1) {
        const shifted = [...factors, 0];
        factors.forEach((factor, index) => {
            shifted[index + 1] ^= product(factor, POWERS[root]);
        });
        factors = shifted;
    }
    return factors.slice(1);
}

/** @param {number[]} data */
function checkBytes(data) {
    const divisor = generator();
    const rest = new Array(CHECK_BYTES).fill(0);
    for (const byte of data) {
        const lead = byte ^ rest[0];
        rest.shift();
        rest.push(0);
        divisor.forEach((factor, index) => {
            rest[index] ^= product(factor, lead);
        });
    }
    return rest;
}

/**
 * The text in byte mode: four bits of mode, eight of length, the bytes, an end, and bytes to fill up.
 * @param {Uint8Array} bytes
 */
function dataBytes(bytes) {
    if (bytes.length > DATA_BYTES - 2) throw new RangeError("the text is too long for this QR code");
    const halves = [4, bytes.length >> 4, bytes.length & 15];
    for (const byte of bytes) halves.push(byte >> 4, byte & 15);
    halves.push(0);
    const data = [];
    for (let index = 0; index < halves.length; index += 2) data.push((halves[index] << 4) | halves[index + 1]);
    for (let filler = 0xec; data.length < DATA_BYTES; filler ^= 0xfd) data.push(filler);
    return data;
}

/** @typedef {(boolean | null)[][]} Modules Rows of dark (true) and light modules; null is not set yet. */

/**
 * A square finder pattern around a module, with the light border that fits.
 * @type {(modules: Modules, row: number, column: number, radius: number, ring: number) => void}
 */
function drawSquare(modules, row, column, radius, ring) {
    for (let down = -radius; down <= radius; down += 1) {
        for (let right = -radius; right <= radius; right += 1) {
            const line = modules[row + down];
            const distance = Math.max(Math.abs(down), Math.abs(right));
            if (line?.[column + right] !== undefined) line[column + right] = distance !== ring && distance !== 4;
        }
    }
}

/** Everything that does not depend on the text. */
function frame() {
    /** @type {Modules} */
    const modules = Array.from({ length: SIZE }, () => new Array(SIZE).fill(null));
    for (const [row, column] of [[3, 3], [3, SIZE - 4], [SIZE - 4, 3]]) drawSquare(modules, row, column, 4, 2);
    drawSquare(modules, ALIGNMENT, ALIGNMENT, 2, 1);
    for (let index = 8; index < SIZE - 8; index += 1) {
        modules[6][index] = index % 2 === 0;
        modules[index][6] = index % 2 === 0;
    }
    for (let bit = 0; bit < 15; bit += 1) {
        const isDark = ((FORMAT >> bit) & 1) === 1;
        modules[bit < 6 ? bit : bit < 8 ? bit + 1 : SIZE - 15 + bit][8] = isDark;
        modules[8][bit < 8 ? SIZE - 1 - bit : bit === 8 ? 7 : 14 - bit] = isDark;
    }
    modules[SIZE - 8][8] = true;
    return modules;
}

/**
 * The modules of the code: rows of true for dark.
 * @param {string} text
 * @returns {boolean[][]}
 */
export function qrModules(text) {
    const data = dataBytes(new TextEncoder().encode(text));
    const bytes = [...data, ...checkBytes(data)];
    const modules = frame();
    let place = 0;
    // Two columns at a time from the right, up and down in turns; the column of the timing pattern is left out.
    for (let pair = 0; pair < (SIZE - 1) / 2; pair += 1) {
        const right = SIZE - 1 - 2 * pair - (pair >= (SIZE - 7) / 2 ? 1 : 0);
        for (let step = 0; step < SIZE; step += 1) {
            const row = pair % 2 ? step : SIZE - 1 - step;
            for (const column of [right, right - 1]) {
                if (modules[row][column] !== null) continue;
                const bit = ((bytes[place >> 3] ?? 0) >> (7 - (place & 7))) & 1;
                modules[row][column] = Boolean(bit) !== ((row + column) % 2 === 0);
                place += 1;
            }
        }
    }
    return modules.map((line) => line.map(Boolean));
}

/**
 * The text as a QR code.
 * @param {string} text
 */
export function qrCode(text) {
    const whole = SIZE + 2 * QUIET;
    const dark = qrModules(text).flatMap((line, row) =>
        line.map((isDark, column) => (isDark ? `M${column + QUIET} ${row + QUIET}h1v1h-1z` : "")),
    );
    return s(
        "svg",
        { class: "qr-code", viewBox: `0 0 ${whole} ${whole}`, role: "img", "aria-label": `QR code of ${text}` },
        s("rect", { class: "paper", width: whole, height: whole }),
        s("path", { class: "ink", d: dark.join("") }),
    );
}
