// Elements without HTML in strings: what a node says is text, and stays text.

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (value === null || value === undefined || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else element.setAttribute(name, value === true ? "" : value);
    }
    append(element, children);
    return element;
}

function append(element, children) {
    for (const child of children.flat(Infinity)) {
        if (child !== null && child !== undefined && child !== false) element.append(child);
    }
}

/** An HTML element. Attributes that are null or false are left out; `onclick` and the like are listeners. */
export const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);

/** An SVG element. */
export const s = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

/** Put these children in place of the present ones. */
export function fill(element, ...children) {
    element.replaceChildren();
    append(element, children);
    return element;
}

/** Lets the browser draw and answer before more work is done. */
export const breathe = () => new Promise((resolve) => setTimeout(resolve));
