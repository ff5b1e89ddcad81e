// The API reference: the node's own OpenAPI and AsyncAPI documents, shown so that everything in them can be tried.

import { fill, find, h } from "../static/dom.js";
import { read, readChain } from "./chain.js";
import { eventsView } from "./events.js";
import { operationView } from "./operation.js";
import { marked, paragraphs } from "./text.js";

/** @import { Chain } from "./chain.js" */
/** @import { Operation } from "./request.js" */
/** @import { Json } from "./schema.js" */

/**
 * The operations of a tag.
 * @param {Json} openapi
 * @param {string} tag
 * @returns {Operation[]}
 */
function operationsOf(openapi, tag) {
    /** @type {[string, Json][]} */
    const paths = Object.entries(openapi.paths);
    return paths
        .flatMap(([path, item]) =>
            Object.entries(item).map(([method, described]) => ({ method: method.toUpperCase(), path, described })),
        )
        .filter(({ described }) => described.tags[0] === tag);
}

/**
 * @param {Json} openapi
 * @param {Chain | null} chain
 */
function head(openapi, chain) {
    const kind = chain && (chain.dev.length ? "Dev chain" : chain.isNetwork ? "Network" : "Chain");
    return h(
        "section",
        { id: "top" },
        h("h1", null, "API reference"),
        h(
            "p",
            { class: "versions" },
            h("span", null, `Interface ${openapi.info.version}`),
            h("span", null, chain ? `Node ${chain.version}` : "The node is not ready"),
            chain && h("span", null, `${kind} ${chain.chainId}`),
        ),
        paragraphs(openapi.info.description),
    );
}

/**
 * @param {Json} openapi
 * @param {Chain | null} chain
 */
function sections(openapi, chain) {
    return openapi.tags.map((/** @type {Json} */ { name, description, "x-displayName": title }) =>
        h(
            "section",
            { id: name },
            h("h2", null, title),
            h("p", { class: "about" }, marked(description)),
            operationsOf(openapi, name).map((each) => operationView(openapi, chain, each)),
        ),
    );
}

/** @param {Json} openapi */
function contents(openapi) {
    return h(
        "nav",
        { class: "contents", "aria-label": "Contents" },
        openapi.tags.map((/** @type {Json} */ { name, "x-displayName": title }) => [
            h("a", { href: `#${name}` }, title),
            h(
                "ul",
                null,
                operationsOf(openapi, name).map(({ method, path, described }) =>
                    h("li", null, h("a", { href: `#${described.operationId}` }, h("b", null, method), " ", path)),
                ),
            ),
        ]),
        h("a", { href: "#events" }, "Events"),
    );
}

/** Opens what the address names behind #. */
function openNamed() {
    const named = document.getElementById(location.hash.slice(1));
    if (named instanceof HTMLDetailsElement) named.open = true;
    named?.scrollIntoView();
}

async function showExplorerLink() {
    const { ok } = await fetch("/", { method: "HEAD" });
    find(document, "#explorer", HTMLElement).hidden = !ok;
}

async function start() {
    const main = find(document, "main", HTMLElement);
    try {
        const [openapi, asyncapi] = await Promise.all([read("/openapi.json"), read("/asyncapi.json")]);
        const chain = await readChain(openapi).catch(() => null);
        const shown = h("div", null, head(openapi, chain), sections(openapi, chain), eventsView(asyncapi));
        fill(main, contents(openapi), shown);
        window.addEventListener("hashchange", openNamed);
        openNamed();
        await showExplorerLink();
    } catch {
        fill(main, h("p", { role: "alert" }, "The node does not answer. Load the page again when it runs."));
    }
    main.removeAttribute("aria-busy");
}

start();
