// Hexadecimal text and bytes.

export function toBytes(hex) {
    const bytes = new Uint8Array((hex.length - 2) / 2);
    for (let index = 0; index < bytes.length; index += 1) {
        bytes[index] = Number.parseInt(hex.slice(2 * index + 2, 2 * index + 4), 16);
    }
    return bytes;
}

export function toHex(bytes) {
    let text = "0x";
    for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
    return text;
}

export function joined(...parts) {
    const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let at = 0;
    for (const part of parts) {
        whole.set(part, at);
        at += part.length;
    }
    return whole;
}
