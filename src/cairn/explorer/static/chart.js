// Bars over the newest blocks, oldest to the left, drawn as SVG.

import { grouped } from "./amounts.js";
import { fill, h, s } from "./dom.js";
import { href } from "./routes.js";

const WIDTH = 600;
const HEIGHT = 132;
const TOP = 14;
const FLOOR = 112;

/** @typedef {{ height: bigint, value: number }} Point */

/**
 * The least round number that is not below the value: where the axis ends.
 * @param {number} value
 */
function roundedUp(value) {
    const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
    return [1, 2, 3, 4, 5, 6, 8].map((step) => step * power).find((limit) => limit >= value) ?? 10 * power;
}

/**
 * The bar that the event is on, or null.
 * @param {Event} event
 */
const barOf = ({ target }) => (target instanceof Element ? target.closest("g") : null);

export class BarChart {
    #svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", preserveAspectRatio: "none" });
    #top = h("span", { class: "limit" });
    #said = h("figcaption");
    #slots;
    #title;
    #summary = "";
    #describe;

    /**
     * `describe` gives the words for one value: "3 transactions". There is room for `slots` bars.
     * @param {{ title: string, slots: number, describe: (value: number) => string }} options
     */
    constructor({ title, slots, describe }) {
        this.#slots = slots;
        this.#title = title;
        this.#describe = describe;
        const frame = h("div", { class: "frame" }, this.#top, this.#svg);
        this.element = h("figure", { class: "chart card" }, h("h2", null, title), frame, this.#said);
        this.#svg.addEventListener("pointerover", (event) => this.#point(barOf(event)));
        this.#svg.addEventListener("pointerleave", () => this.#point(null));
        this.#svg.addEventListener("click", (event) => {
            const bar = barOf(event);
            if (bar) location.hash = href(`/block/${bar.dataset.height}`);
        });
    }

    /**
     * Newest first.
     * @param {Point[]} points
     */
    show(points) {
        const values = points.map((point) => point.value);
        const limit = roundedUp(Math.max(1, ...values));
        const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
        this.#top.textContent = grouped(limit);
        const [average, most] = [Number(mean.toFixed(1)), Math.max(0, ...values)].map(this.#describe);
        this.#summary = points.length
            ? `Last ${points.length}: ${average} on average, ${most} at most`
            : "Nothing to show yet";
        this.#svg.setAttribute("aria-label", `${this.#title}. ${this.#summary}.`);
        this.#said.textContent = this.#summary;
        fill(
            this.#svg,
            this.#grid(),
            points.map((point, index) => this.#bar(point, index, limit)),
        );
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
        const size = (value / limit) * (FLOOR - TOP);
        const words = `Block ${grouped(height)}: ${this.#describe(value)}`;
        return s(
            "g",
            { "data-height": height, "data-words": words },
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

    /** @param {SVGElement | null} bar */
    #point(bar) {
        this.#said.textContent = bar?.dataset.words ?? this.#summary;
    }
}
