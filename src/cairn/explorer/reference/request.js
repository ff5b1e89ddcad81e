// One try of an operation: the form, the same request as a curl command, and what the node answers.

import { fill, h } from "../static/dom.js";
import { parseExact, pretty } from "../static/exact.js";
import { FRESH, remarkOn } from "./chain.js";
import { resolve, typeName } from "./schema.js";
import { marked, output } from "./text.js";

/** @import { Chain } from "./chain.js" */
/** @import { Json } from "./schema.js" */

/**
 * @typedef {object} Operation
 * @property {string} method
 * @property {string} path
 * @property {Json} described
 *
 * @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Control
 */

const SHOWN_CHARACTERS = 20_000;
const BODY_ROWS = 12;

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * @param {Json} openapi
 * @param {Chain | null} chain
 * @param {Operation} operation
 */
export function tryForm(openapi, chain, { method, path, described }) {
    const id = described.operationId;
    /** @type {Json[]} */
    const parameters = described.parameters ?? [];
    const bodySchema = described.requestBody?.content["application/json"].schema;
    const controls = new Map(parameters.map((each) => [each.name, parameterControl(id, each)]));
    if (bodySchema) controls.set("body", bodyControl(openapi, id, bodySchema));

    const remark = h("p", { class: "remark", role: "note", hidden: true });
    const command = output("", "The same request with curl");
    const answer = h("div", { class: "answer", role: "status" });
    const send = h("button", { class: "button main" }, "Send");
    const renew = h("button", { type: "button", class: "button", hidden: true }, "New example");
    // An example is replaced by a newer one until the person changes or sends it.
    let [isChanged, isSent] = [false, false];
    let turns = 0;

    const request = () => {
        const query = new URLSearchParams();
        /** @type {Record<string, string>} */
        const headers = bodySchema ? { "content-type": "application/json" } : {};
        let url = path;
        for (const { name, in: place } of parameters) {
            const value = controls.get(name)?.value ?? "";
            if (place === "path") url = url.replace(`{${name}}`, encodeURIComponent(value));
            else if (value && place === "query") query.set(name, value);
            else if (value) headers[name] = value;
        }
        return { url: query.size ? `${url}?${query}` : url, headers, body: controls.get("body")?.value };
    };

    const showCommand = () => {
        const { url, headers, body } = request();
        const words = [`curl ${quoted(location.origin + url)}`];
        for (const [name, value] of Object.entries(headers)) words.push(`-H ${quoted(`${name}: ${value}`)}`);
        if (body !== undefined) words.push(`-d ${quoted(body)}`);
        command.textContent = words.join(" \\\n  ");
    };

    const refresh = async () => {
        turns += 1;
        const turn = turns;
        /** @type {Map<string, string>} */
        const found = new Map();
        let refusal = null;
        try {
            for (const [name, find] of Object.entries(chain ? (FRESH[id] ?? {}) : {})) {
                const value = await find(/** @type {Chain} */ (chain));
                if (value) found.set(name, value);
            }
        } catch (failure) {
            refusal = `There is no example of this chain: ${/** @type {Error} */ (failure).message}`;
        }
        if (turn !== turns) return;
        for (const [name, control] of controls) control.value = found.get(name) ?? control.value;
        /** @type {ReturnType<typeof remarkOn>} */
        const said = refusal ? { text: refusal } : chain && remarkOn(chain, id, described.tags[0], found.size > 0);
        renew.hidden = found.size === 0 && !refusal;
        remark.hidden = !said;
        remark.classList.toggle("warning", !said?.works);
        fill(remark, marked(said?.text ?? ""));
        [isChanged, isSent] = [false, false];
        showCommand();
    };

    const submit = async () => {
        send.disabled = true;
        if (!isChanged && !isSent) await refresh();
        isSent = true;
        const { url, headers, body } = request();
        fill(answer, await sent(url, { method, headers, body }));
        send.disabled = false;
    };

    const form = h(
        "form",
        {
            class: "try",
            "aria-label": `Try ${method} ${path}`,
            onsubmit: (/** @type {Event} */ event) => {
                event.preventDefault();
                submit();
            },
            oninput: () => {
                turns += 1;
                isChanged = true;
                showCommand();
            },
        },
        remark,
        parameters.map((each) => field(id, each.name, each.description, each.required, controls.get(each.name))),
        bodySchema && field(id, "body", `\`${typeName(bodySchema)}\`, as described below`, true, controls.get("body")),
        h("div", { class: "actions" }, send, renew),
        command,
        answer,
    );
    renew.addEventListener("click", refresh);
    return { form, reopen: () => isChanged || refresh() };
}

/**
 * @param {string} id
 * @param {Json} parameter
 * @returns {Control}
 */
function parameterControl(id, { name, schema, example, required }) {
    const attributes = { id: `${id}-${name}`, "aria-describedby": `${id}-${name}-about`, class: "code", required };
    if (schema.enum && !required) {
        const none = h("option", { value: "" }, `not given (${schema.default})`);
        return h("select", attributes, none, schema.enum.map((/** @type {string} */ each) => h("option", null, each)));
    }
    const sample = example ?? schema.examples?.[0] ?? schema.default ?? "";
    return h("input", {
        ...attributes,
        value: required ? sample : null,
        placeholder: required ? null : sample,
        autocomplete: "off",
        spellcheck: "false",
    });
}

/**
 * @param {Json} openapi
 * @param {string} id
 * @param {Json} schema
 */
function bodyControl(openapi, id, schema) {
    const whole = resolve(openapi, schema);
    const examples = whole.examples ?? resolve(openapi, whole.oneOf?.[0] ?? {}).examples;
    const attributes = { id: `${id}-body`, "aria-describedby": `${id}-body-about`, class: "code", rows: BODY_ROWS };
    return h("textarea", { ...attributes, spellcheck: "false" }, pretty(examples[0]));
}

/**
 * @param {string} id
 * @param {string} name
 * @param {string} about
 * @param {boolean} isRequired
 * @param {Control | undefined} control
 */
function field(id, name, about, isRequired, control) {
    return h(
        "div",
        { class: "field" },
        h(
            "label",
            { for: `${id}-${name}` },
            h("code", null, name),
            isRequired && h("span", { class: "required" }, " required"),
        ),
        control,
        h("p", { id: `${id}-${name}-about`, class: "about" }, marked(about)),
    );
}

/**
 * What the node answers to that request, for people.
 * @param {string} url
 * @param {RequestInit} options
 */
async function sent(url, options) {
    const begun = performance.now();
    try {
        const response = await fetch(url, options);
        const text = await response.text();
        const took = `${Math.round(performance.now() - begun)} ms`;
        const kind = response.ok ? "good" : "bad";
        const headers = [...response.headers].map((pair) => pair.join(": ")).join("\n");
        return [
            h("p", null, h("strong", { class: kind }, `${response.status} ${response.statusText}`), ` in ${took}`),
            h("details", null, h("summary", null, "Headers"), output(headers, "Headers")),
            text && output(shown(text, response.headers.get("content-type") ?? ""), "Body"),
        ];
    } catch {
        return h("p", null, h("strong", { class: "bad" }, "The node does not answer."));
    }
}

/**
 * JSON for people; as it came where it is none, whatever its type says.
 * @param {string} text
 */
function laidOut(text) {
    try {
        return pretty(parseExact(text));
    } catch {
        return text;
    }
}

/**
 * @param {string} text
 * @param {string} type
 */
function shown(text, type) {
    const whole = /[/+]json/.test(type) ? laidOut(text) : text;
    if (whole.length <= SHOWN_CHARACTERS) return whole;
    return `${whole.slice(0, SHOWN_CHARACTERS)}\n… and ${whole.length - SHOWN_CHARACTERS} more characters`;
}
