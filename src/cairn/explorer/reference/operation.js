// An operation of the OpenAPI document: closed, a line of the list; open, all that is known of it and a form to try it.

import { h } from "../static/dom.js";
import { pretty } from "../static/exact.js";
import { tryForm } from "./request.js";
import { fields, resolve, typeName } from "./schema.js";
import { marked, output, paragraphs } from "./text.js";

/** @import { Chain } from "./chain.js" */
/** @import { Json } from "./schema.js" */
/** @import { Operation } from "./request.js" */

/**
 * @param {Json} openapi
 * @param {Chain | null} chain
 * @param {Operation} operation
 */
export function operationView(openapi, chain, operation) {
    const { method, path, described } = operation;
    const view = h(
        "details",
        { id: described.operationId, class: "operation" },
        h(
            "summary",
            null,
            h("span", { class: `method ${method.toLowerCase()}` }, method),
            h("code", { class: "path" }, path),
            h("span", { class: "gist" }, described.summary),
        ),
    );
    /** @type {ReturnType<typeof tryForm> | null} */
    let tried = null;
    view.addEventListener("toggle", () => {
        if (!view.open) return;
        history.replaceState(null, "", `#${view.id}`);
        if (!tried) {
            tried = tryForm(openapi, chain, operation);
            const text = paragraphs(described.description);
            view.append(h("div", { class: "inside" }, text, tried.form, about(openapi, described)));
        }
        tried.reopen();
    });
    return view;
}

/**
 * @param {Json} openapi
 * @param {Json} described
 */
function about(openapi, described) {
    const body = described.requestBody?.content["application/json"].schema;
    /** @type {[string, Json][]} */
    const responses = Object.entries(described.responses);
    // What every request can be refused with is described once for all, and referred to.
    const answers = responses.filter(([, response]) => !response.$ref);
    const refusals = responses.filter(([, response]) => response.$ref);
    return h(
        "div",
        { class: "columns" },
        body && h("section", null, h("h3", null, "Body: ", h("code", null, typeName(body))), fields(openapi, body)),
        h(
            "section",
            null,
            answers.map(([status, response]) => answerView(openapi, status, response)),
            h(
                "details",
                { class: "more" },
                h("summary", null, `Refusals: ${refusals.map(([status]) => status).join(", ")}`),
                h(
                    "dl",
                    { class: "statuses" },
                    refusals.map(([status, response]) => [
                        h("dt", null, status),
                        h("dd", null, marked(resolve(openapi, response).description)),
                    ]),
                ),
            ),
        ),
    );
}

/** @param {unknown} example */
const exampleView = (example) =>
    h("details", { class: "more" }, h("summary", null, "Example"), output(pretty(example), "Example"));

/**
 * @param {Json} openapi
 * @param {string} status
 * @param {Json} response
 */
function answerView(openapi, status, response) {
    const [type, content] = Object.entries(response.content ?? {})[0] ?? ["", null];
    const kind = content && (type.endsWith("json") ? typeName(content.schema) : type);
    return [
        h("h3", null, status, kind && [": ", h("code", null, kind)]),
        h("p", null, marked(response.description)),
        content && fields(openapi, content.schema),
        (content && resolve(openapi, content.schema).examples?.slice(0, 1))?.map(exampleView),
    ];
}
