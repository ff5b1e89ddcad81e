// Stones: the newest blocks as a cairn, and a small pile for every account. Shapes and tones come from hashes.

import { grouped } from "./amounts.js";
import { s } from "./dom.js";

const TONES = 5;
const POINTS = 8;
const SHOWN = 8;
const WIDTH = 400;
const GROUND = 356;
const MIDDLE = 168;
/** The width and height of the stone of an empty block, and how much larger the largest one is. */
const SMALLEST = [92, 34];
const LARGER = [186, 12];

/** @import { Header } from "./api.js" */

/**
 * Numbers between 0 and 1 that depend on the text alone (mulberry32).
 * @param {string} text
 */
function numbersOf(text) {
    let state = Number.parseInt(text.slice(2, 10), 16) ^ Number.parseInt(text.slice(-8), 16);
    return () => {
        state = (state + 0x6d2b79f5) | 0;
        let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
        mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
        return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
}

/**
 * The outline of a worn stone, one unit wide and high around the origin: a smooth curve through a bumpy oval.
 * @param {() => number} next
 */
function outline(next) {
    const points = Array.from({ length: POINTS }, (_, index) => {
        const angle = ((index + 0.35 * next()) / POINTS) * 2 * Math.PI;
        const bump = 0.46 + 0.045 * next();
        // Squared off a little: stones lie on each other.
        /** @param {number} value */
        const flat = (value) => Math.sign(value) * Math.abs(value) ** 0.8;
        return { x: bump * flat(Math.cos(angle)), y: bump * flat(Math.sin(angle)) };
    });
    /** @param {number} index */
    const at = (index) => points[(index + POINTS) % POINTS];
    /** @type {(x: number, y: number) => string} */
    const text = (x, y) => `${x.toFixed(3)} ${y.toFixed(3)}`;
    let path = `M${text(at(0).x, at(0).y)}`;
    for (let index = 0; index < POINTS; index += 1) {
        const [before, from, to, after] = [at(index - 1), at(index), at(index + 1), at(index + 2)];
        const out = text(from.x + (to.x - before.x) / 6, from.y + (to.y - before.y) / 6);
        const into = text(to.x - (after.x - from.x) / 6, to.y - (after.y - from.y) / 6);
        path += `C${out} ${into} ${text(to.x, to.y)}`;
    }
    return `${path}Z`;
}

/**
 * A stone of one unit around the origin; `key` decides how it looks. The second outline carries light and shade.
 * @param {string} key
 * @param {string} [tone]
 */
function stone(key, tone) {
    const next = numbersOf(key);
    const d = outline(next);
    return s(
        "g",
        { class: "stone" },
        s("path", { d, fill: `var(--tone-${tone ?? Math.floor(next() * TONES)})` }),
        s("path", { d, fill: "url(#stone-light)" }),
    );
}

/** The light that falls on every stone of the page from above; it must be in the document once. */
export function stoneLight() {
    /** @type {(offset: number, color: string, opacity: number) => SVGElement} */
    const stop = (offset, color, opacity) => s("stop", { offset, "stop-color": color, "stop-opacity": opacity });
    return s(
        "svg",
        { class: "unseen", width: 0, height: 0, "aria-hidden": "true" },
        s(
            "linearGradient",
            { id: "stone-light", x1: 0, y1: 0, x2: 0.15, y2: 1 },
            stop(0, "#fff", 0.34),
            stop(0.45, "#fff", 0),
            stop(0.6, "#000", 0),
            stop(1, "#000", 0.26),
        ),
    );
}

/**
 * @param {SVGElement} element
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
function placed(element, x, y, width, height) {
    element.setAttribute("transform", `translate(${x} ${y}) scale(${width} ${height})`);
    return element;
}

/**
 * Three stones that belong to one address: easier to tell apart than digits.
 * @param {string} address
 * @param {number} size
 */
export function avatar(address, size) {
    const next = numbersOf(address);
    const lean = () => 16 + 3 * (next() - 0.5);
    /** @param {number} index */
    const key = (index) => `0x${address.slice(2 + index, 10 + index)}${address.slice(-8 - index, -index || undefined)}`;
    return s(
        "svg",
        { class: "avatar", width: size, height: size, viewBox: "0 0 32 32", "aria-hidden": "true" },
        placed(stone(key(3)), lean(), 25, 29, 12),
        placed(stone(key(5)), lean(), 15.5, 22, 10.5),
        placed(stone(key(7)), lean(), 7, 14, 9.5),
    );
}

/**
 * The cairn of the newest blocks. Each lies on the one before it, so the newest is on top. Its width says how many
 * transactions it holds, beside the largest of the pile.
 */
export class Cairn {
    /**
     * By the block's hash.
     * @type {Map<string, { element: SVGElement, shape: SVGElement, number: SVGElement, count: SVGElement }>}
     */
    #stones = new Map();
    #pile = s("g");
    #describe;

    /**
     * `describe` gives the text beside a block's stone.
     * @param {(block: Header) => string} describe
     */
    constructor(describe) {
        this.#describe = describe;
        this.element = s(
            "svg",
            { class: "cairn", viewBox: `0 0 ${WIDTH} 372`, "aria-hidden": "true" },
            s("ellipse", { class: "shadow", cx: MIDDLE, cy: GROUND, rx: 160, ry: 12 }),
            this.#pile,
        );
    }

    /**
     * Show the newest of these blocks, newest first.
     * @param {Header[]} blocks
     */
    show(blocks) {
        const shown = blocks.slice(0, SHOWN);
        const hashes = new Set(shown.map((block) => block.hash));
        for (const [hash, { element }] of this.#stones) {
            if (!hashes.has(hash)) {
                element.remove();
                this.#stones.delete(hash);
            }
        }
        const most = shown.reduce((largest, { transactionCount }) => Math.max(largest, Number(transactionCount)), 1);
        let bottom = GROUND;
        // From the ground up, so that each rests on the one below.
        for (const block of shown.toReversed()) {
            // By the root, as areas are seen: a block of one transaction stays visible beside one of thousands.
            const share = Math.sqrt(Number(block.transactionCount) / most);
            const [width, height] = SMALLEST.map((size, side) => size + LARGER[side] * share);
            this.#place(block, bottom - height / 2, width, height);
            bottom -= height * 0.9;
        }
    }

    /**
     * @param {Header} block
     * @param {number} y
     * @param {number} width
     * @param {number} height
     */
    #place(block, y, width, height) {
        const isNew = !this.#stones.has(block.hash);
        const { element, shape, number, count } = this.#stones.get(block.hash) ?? this.#lay(block);
        const lean = 9 * (numbersOf(block.hash)() - 0.5);
        shape.style.transform = `translate(${MIDDLE + lean}px, ${y}px) scale(${width}, ${height})`;
        number.style.transform = `translate(${MIDDLE + lean}px, ${y + 5}px)`;
        count.style.transform = `translate(${WIDTH - 2}px, ${y + 4}px)`;
        element.classList.toggle("falls", isNew);
    }

    /** @param {Header} block */
    #lay(block) {
        const shape = stone(block.hash, block.transactionCount === 0n ? "bare" : undefined);
        const number = s("text", { class: "height", "text-anchor": "middle" }, grouped(block.blockHeight));
        const count = s("text", { class: "count", "text-anchor": "end" }, this.#describe(block));
        const element = s("a", { href: `#/block/${block.blockHeight}`, tabindex: "-1" }, shape, number, count);
        const laid = { element, shape, number, count };
        this.#stones.set(block.hash, laid);
        this.#pile.append(element);
        return laid;
    }
}
