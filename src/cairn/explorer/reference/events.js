// The events of the AsyncAPI document, and a socket to try them with.

import { h } from "../static/dom.js";
import { pretty } from "../static/exact.js";
import { newestBlock, newestConfirmed } from "./chain.js";
import { fields, resolve } from "./schema.js";
import { output, paragraphs } from "./text.js";

/** @import { Json } from "./schema.js" */

const LINES = 200;
const ROWS = 7;

/**
 * What there is on this chain to ask for, by the field that names it.
 * @type {Record<string, () => Promise<unknown>>}
 */
const FRESH = {
    fromHeight: async () => (await newestBlock()).blockHeight,
    txHash: newestConfirmed,
};

/** @param {Json} asyncapi */
export function eventsView(asyncapi) {
    const { ask, tell } = asyncapi.operations;
    /** @type {(operation: Json) => Json[]} */
    const messages = (operation) => operation.messages.map((/** @type {Json} */ each) => resolve(asyncapi, each));
    /** @type {(heading: string, listed: Json[]) => HTMLElement} */
    const group = (heading, listed) =>
        h("section", null, h("h3", null, heading), listed.map((each) => messageView(asyncapi, each)));
    return h(
        "section",
        { id: "events" },
        h("h2", null, "Events"),
        h("p", { class: "address" }, h("span", { class: "method" }, "WS"), h("code", null, socketUrl())),
        tryEvents(messages(ask)),
        paragraphs(asyncapi.info.description),
        group("Messages to the node", messages(ask)),
        group("Its answers", messages(ask.reply)),
        group("Its events", messages(tell)),
    );
}

const socketUrl = () => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/events`;

/**
 * @param {Json} asyncapi
 * @param {Json} message
 */
function messageView(asyncapi, message) {
    return h(
        "details",
        { class: "operation", id: `message-${message.name}` },
        h("summary", null, h("code", { class: "path" }, message.name), h("span", { class: "gist" }, message.summary)),
        h(
            "div",
            { class: "inside" },
            fields(asyncapi, message.payload),
            message.examples.map((/** @type {Json} */ { payload }) =>
                output(pretty(payload), `Example of ${message.name}`),
            ),
        ),
    );
}

/** @param {Json[]} requests */
function tryEvents(requests) {
    const chosen = h("select", { id: "message" }, requests.map(({ name }) => h("option", null, name)));
    const text = h("textarea", { id: "message-text", class: "code", rows: ROWS, spellcheck: "false" });
    const send = h("button", { class: "button main" }, "Connect and send");
    const close = h("button", { type: "button", class: "button", disabled: true }, "Disconnect");
    const state = h("p", { class: "about", role: "status" }, "Not connected");
    const log = h("ol", null);
    /** @type {WebSocket | null} */
    let socket = null;

    /** @type {(kind: "to" | "from", said: string) => void} */
    const note = (kind, said) => {
        const time = h("time", null, new Date().toLocaleTimeString());
        const who = h("span", { class: "who" }, kind === "to" ? "you" : "node");
        log.prepend(h("li", { class: kind }, time, who, h("code", null, said)));
        while (log.childElementCount > LINES) log.lastElementChild?.remove();
    };
    /** @param {string} said */
    const show = (said) => {
        const isOpen = socket?.readyState === WebSocket.OPEN;
        state.textContent = said;
        send.textContent = isOpen ? "Send" : "Connect and send";
        close.disabled = !isOpen;
    };
    /** @param {WebSocket} opened */
    const deliver = (opened) => {
        opened.send(text.value);
        note("to", text.value.replace(/\s*\n\s*/g, " "));
    };
    const connect = () => {
        const opened = new WebSocket(socketUrl());
        socket = opened;
        opened.addEventListener("open", () => {
            show("Connected");
            deliver(opened);
        });
        opened.addEventListener("message", ({ data }) => note("from", data));
        opened.addEventListener("close", ({ code, reason }) => {
            if (socket === opened) socket = null;
            show(`Closed: ${code}${reason && `, ${reason}`}`);
        });
        show("Connecting");
    };
    const submit = () => {
        if (!socket) connect();
        else if (socket.readyState === WebSocket.OPEN) deliver(socket);
    };
    const example = async () => {
        const payload = { ...requests[chosen.selectedIndex].examples[0].payload };
        const given = pretty(payload);
        text.value = given;
        for (const [name, find] of Object.entries(FRESH)) {
            if (name in payload) payload[name] = (await find().catch(() => null)) ?? payload[name];
        }
        // Meanwhile the person may have written or chosen something else.
        if (text.value === given) text.value = pretty(payload);
    };
    chosen.addEventListener("change", example);
    close.addEventListener("click", () => socket?.close());
    example();
    return h(
        "form",
        {
            class: "try card",
            "aria-label": "Try /events",
            onsubmit: (/** @type {Event} */ event) => {
                event.preventDefault();
                submit();
            },
        },
        h("div", { class: "field" }, h("label", { for: "message" }, "Message"), chosen),
        h("div", { class: "field" }, h("label", { for: "message-text" }, "As it is sent"), text),
        h("div", { class: "actions" }, send, close, state),
        h("div", { class: "log", role: "log", "aria-label": "Messages", tabindex: "0" }, log),
    );
}
