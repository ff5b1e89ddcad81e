// JSON Schemas as lists of fields.

import { h } from "../static/dom.js";
import { marked } from "./text.js";

/** @import { Child } from "../static/dom.js" */

/** @typedef {Record<string, any>} Json A part of a description; its integers are BigInts. */

const DEEPEST = 4;

/**
 * What a reference in the document points to; anything else as it is.
 * @param {Json} document
 * @param {Json} part
 * @returns {Json}
 */
export function resolve(document, part) {
    if (!part.$ref) return part;
    const { $ref, ...said } = part;
    let found = document;
    for (const name of $ref.slice(2).split("/")) found = found[name];
    return { ...resolve(document, found), ...said };
}

/** @param {Json} schema */
const nameOf = (schema) => (schema.$ref ? schema.$ref.split("/").at(-1) : null);

/**
 * What a value is, in a few words.
 * @param {Json} schema
 * @returns {string}
 */
export function typeName(schema) {
    if (schema.$ref) return nameOf(schema);
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.enum) return schema.enum.map((/** @type {unknown} */ each) => JSON.stringify(each)).join(" or ");
    if (schema.oneOf) return schema.oneOf.map(typeName).join(" or ");
    if (schema.items?.$ref || schema.items?.type) return `array of ${typeName(schema.items)}`;
    return [schema.type ?? "any"].flat().join(" or ");
}

/**
 * The fields of a value, with theirs inside; a choice shows each. Nothing for a plain value.
 * @param {Json} document
 * @param {Json} schema
 * @returns {Child}
 */
export function fields(document, schema, depth = 0) {
    const whole = resolve(document, schema);
    if (depth > DEEPEST) return null;
    if (whole.items) return fields(document, whole.items, depth);
    const choices = whole.oneOf ?? whole.allOf;
    if (choices) return choices.map((/** @type {Json} */ each) => choice(document, each, depth));
    if (!whole.properties) return null;
    /** @type {[string, Json][]} */
    const properties = Object.entries(whole.properties);
    return h(
        "dl",
        { class: "fields" },
        properties.map(([name, field]) => [
            h(
                "dt",
                null,
                h("code", null, name),
                " ",
                h("span", { class: "type" }, typeName(field)),
                whole.required?.includes(name) && h("span", { class: "required" }, " required"),
            ),
            h("dd", null, marked(resolve(document, field).description ?? ""), fields(document, field, depth + 1)),
        ]),
    );
}

/**
 * @param {Json} document
 * @param {Json} schema
 * @param {number} depth
 */
function choice(document, schema, depth) {
    const content = fields(document, schema, depth + 1);
    const name = nameOf(schema) ?? nameOf(schema.items ?? {});
    return content && name ? [h("p", { class: "choice" }, h("code", null, name)), content] : content;
}
