// Bars over the latest blocks, oldest to the left, drawn as SVG. A pointer or the arrow keys read one of them.

import { grouped } from "./amounts.js";
import { fill, h, s } from "./dom.js";
import { href } from "./routes.js";
import { dateOf } from "./widgets.js";

const WIDTH = 600;
const HEIGHT = 132;
const TOP = 14;
const FLOOR = 112;
const LEAST_SLOTS = 20;

/** @typedef {{ height: bigint, timestamp: bigint, value: number }} Point */

/**
 * The least round number that is not below the value: where the axis ends.
 * @param {number} value
 */
function roundedUp(value) {
    const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
    return [1, 2, 3, 4, 5, 6, 8].map((step) => step * power).find((limit) => limit >= value) ?? 10 * power;
}

/**
 * The time of day; with the date when that is another day than the newest block's.
 * @param {Point} point
 * @param {Point} newest
 */
function clock({ timestamp }, newest) {
    const date = dateOf(timestamp);
    const isSameDay = date.toDateString() === dateOf(newest.timestamp).toDateString();
    return isSameDay ? date.toLocaleTimeString() : date.toLocaleString();
}

/**
 * The bar that the event is on, or null.
 * @param {Event} event
 */
const barOf = ({ target }) => (target instanceof Element ? target.closest("g") : null);

export class BarChart {
    #svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", preserveAspectRatio: "none" });
    #top = h("span", { class: "limit" });
    #axis = h("div", { class: "axis", "aria-hidden": "true" });
    #said = h("figcaption");
    #most;
    #title;
    #summary = "";
    #describe;
    /** @type {Point[]} */
    #points = [];
    /**
     * The height of the block that is read; null for none.
     * @type {bigint | null}
     */
    #read = null;
    #longest = Infinity;

    /**
     * `describe` gives the words for one value: "3 transactions". There is room for `most` bars.
     * @param {{ title: string, most: number, describe: (value: number) => string }} options
     */
    constructor({ title, most, describe }) {
        this.#most = most;
        this.#title = title;
        this.#describe = describe;
        const label = `${title}: choose a block`;
        this.cursor = h("div", { class: "cursor", tabindex: "0", role: "slider", "aria-label": label });
        const frame = h("div", { class: "frame" }, this.#top, this.#svg, this.cursor);
        this.element = h("figure", { class: "chart card" }, h("h2", null, title), frame, this.#axis, this.#said);
        this.#listen();
    }

    #listen() {
        this.#svg.addEventListener("pointerover", (event) => this.#point(barOf(event)));
        this.#svg.addEventListener("pointerleave", () => this.#readOut(null));
        this.#svg.addEventListener("click", (event) => {
            const bar = barOf(event);
            if (bar) location.hash = href(`/block/${bar.dataset.height}`);
        });
        this.cursor.addEventListener("focus", () => this.#move(0));
        this.cursor.addEventListener("blur", () => this.#readOut(null));
        this.cursor.addEventListener("keydown", (event) => this.#press(event));
    }

    /** @param {KeyboardEvent} event */
    #press(event) {
        const all = this.#points.length;
        /** @type {Record<string, number>} */
        const older = { ArrowLeft: 1, ArrowDown: 1, PageDown: 10, Home: all };
        /** @type {Record<string, number>} */
        const newer = { ArrowRight: -1, ArrowUp: -1, PageUp: -10, End: -all };
        const step = older[event.key] ?? newer[event.key];
        if (event.key === "Enter" && this.#read !== null) location.hash = href(`/block/${this.#read}`);
        if (step === undefined) return;
        event.preventDefault();
        this.#move(step);
    }

    /**
     * Read the bar so many to the left of the one that is read now.
     * @param {number} step
     */
    #move(step) {
        const now = this.#points.findIndex((point) => point.height === this.#read);
        const index = Math.min(this.#points.length - 1, Math.max(0, Math.max(0, now) + step));
        this.#readOut(this.#points[index]?.height ?? null);
    }

    /** @param {SVGElement | null} bar */
    #point(bar) {
        this.#readOut(bar?.dataset.height === undefined ? null : BigInt(bar.dataset.height));
    }

    /**
     * Newest first. Values above `longest` are pauses: their bars are cut off and pale, and no mean counts them.
     * @param {Point[]} points
     */
    show(points, longest = Infinity) {
        this.#points = points;
        this.#longest = longest;
        const values = points.map((point) => point.value).filter((value) => value <= longest);
        const limit = roundedUp(Math.max(1, ...values));
        const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
        const pauses = points.length - values.length;
        this.#top.textContent = grouped(limit);
        const [average, most] = [Number(mean.toFixed(1)), Math.max(0, ...values)].map(this.#describe);
        const rest = pauses > 0 ? `. ${pauses} longer: pauses without transactions, pale and cut off` : "";
        this.#summary = points.length
            ? `Last ${values.length}: ${average} on average, ${most} at most${rest}`
            : "Nothing to show yet";
        this.#svg.setAttribute("aria-label", `${this.#title}. ${this.#summary}.`);
        fill(
            this.#svg,
            this.#grid(),
            points.map((point, index) => this.#bar(point, index, limit)),
        );
        this.#showAxis();
        this.#readOut(points.some((point) => point.height === this.#read) ? this.#read : null);
    }

    /** Bars get wider while there are few. */
    get #slots() {
        return Math.min(this.#most, Math.max(LEAST_SLOTS, this.#points.length));
    }

    /** The times of the oldest block, of one in the middle, and of the newest, as far as there is room between them. */
    #showAxis() {
        const [points, last] = [this.#points, this.#points.length - 1];
        const shown = [0];
        if (last >= 0.35 * this.#slots) shown.unshift(last);
        if (last >= 0.8 * this.#slots) shown.splice(1, 0, Math.floor(last / 2));
        fill(
            this.#axis,
            shown.filter((index) => points[index]).map((index) => this.#tick(points[index], index)),
        );
    }

    /**
     * @param {Point} point
     * @param {number} index
     */
    #tick(point, index) {
        const tick = h("span", null, clock(point, this.#points[0]));
        // Not beyond the edges of the chart.
        const place = 100 - ((index + 0.5) / this.#slots) * 100;
        tick.style.left = `${place}%`;
        tick.style.transform = `translateX(-${place}%)`;
        return tick;
    }

    #grid() {
        return [TOP, (TOP + FLOOR) / 2, FLOOR].map((y) => s("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y }));
    }

    /**
     * @param {Point} point
     * @param {number} index
     * @param {number} limit
     */
    #bar({ height, value }, index, limit) {
        const step = WIDTH / this.#slots;
        const x = WIDTH - (index + 1) * step;
        const size = Math.min(1, value / limit) * (FLOOR - TOP);
        return s(
            "g",
            { "data-height": height, class: value > this.#longest ? "over" : null },
            s("rect", { class: "hit", x, y: 0, width: step, height: HEIGHT }),
            s("rect", {
                class: "bar",
                x: x + step * 0.14,
                y: FLOOR - Math.max(size, 1.5),
                width: step * 0.72,
                height: Math.max(size, 1.5),
                rx: 1.5,
            }),
        );
    }

    /** @param {bigint | null} height */
    #readOut(height) {
        this.#read = height;
        for (const bar of this.#svg.querySelectorAll("g")) {
            bar.classList.toggle("read", bar.dataset.height === String(height));
        }
        const index = this.#points.findIndex((point) => point.height === height);
        const point = this.#points[index];
        const words = point
            ? `Block ${grouped(point.height)} at ${clock(point, this.#points[0])}: ${this.#describe(point.value)}`
            : this.#summary;
        this.#said.textContent = words;
        this.cursor.setAttribute("aria-valuemin", "0");
        this.cursor.setAttribute("aria-valuemax", String(Math.max(0, this.#points.length - 1)));
        this.cursor.setAttribute("aria-valuenow", String(Math.max(0, this.#points.length - 1 - Math.max(0, index))));
        this.cursor.setAttribute("aria-valuetext", words);
    }
}
