// Elements without HTML in strings: what a node says is text, and stays text.

/**
 * @typedef {string | number | bigint | boolean | null | undefined | ((event: any) => unknown)} Attribute
 * @typedef {Record<string, Attribute> | null} Attributes
 * @typedef {Node | string | false | null | undefined | Children} Child
 * @typedef {Child[]} Children
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {Element} E
 * @param {E} element
 * @param {Attributes | undefined} attributes
 * @param {Child[]} children
 */
function build(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (value === null || value === undefined || value === false) continue;
        if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
        else element.setAttribute(name, value === true ? "" : String(value));
    }
    append(element, children);
    return element;
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
function append(element, children) {
    for (const child of children) {
        if (Array.isArray(child)) append(element, child);
        else if (child !== null && child !== undefined && child !== false) element.append(child);
    }
}

/**
 * An HTML element. Attributes that are null or false are left out; `onclick` and the like are listeners.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {Child[]} children
 */
export const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {Child[]} children
 */
export const s = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

/**
 * The first element that the selector names; it must be there, and of that kind.
 * @template {Element} E
 * @param {ParentNode} place
 * @param {string} selector
 * @param {new () => E} kind
 */
export function find(place, selector, kind) {
    const element = place.querySelector(selector);
    if (element instanceof kind) return element;
    throw new TypeError(`the page has no ${kind.name} at ${selector}`);
}

/**
 * Put these children in place of the present ones.
 * @template {Element} E
 * @param {E} element
 * @param {Child[]} children
 */
export function fill(element, ...children) {
    element.replaceChildren();
    append(element, children);
    return element;
}

/**
 * Tell a screen reader something besides what has the focus: rarely, and never every block.
 * @param {string} text
 */
export function announce(text) {
    find(document, "#announcer", HTMLElement).textContent = text;
}
