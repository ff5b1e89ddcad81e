// Hexadecimal text and bytes.

const WHOLE_BYTES = /^0x(?:[0-9a-f]{2})*$/i;

/**
 * @param {unknown} text
 * @returns {text is string}
 */
export const isHex = (text) => typeof text === "string" && WHOLE_BYTES.test(text);

/**
 * Throws a TypeError for anything else: what is shown and what is hashed must not be two things.
 * @param {unknown} hex
 */
export function toBytes(hex) {
    if (!isHex(hex)) throw new TypeError(`${hex} is no hexadecimal text`);
    const bytes = new Uint8Array((hex.length - 2) / 2);
    for (let index = 0; index < bytes.length; index += 1) {
        bytes[index] = Number.parseInt(hex.slice(2 * index + 2, 2 * index + 4), 16);
    }
    return bytes;
}

/** @param {Iterable<number>} bytes */
export function toHex(bytes) {
    let text = "0x";
    for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
    return text;
}

/** @param {Uint8Array[]} parts */
export function joined(...parts) {
    const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let at = 0;
    for (const part of parts) {
        whole.set(part, at);
        at += part.length;
    }
    return whole;
}
