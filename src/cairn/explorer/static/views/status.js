// The node itself: its version, its probes, how far it is, and how full its mempool is.

import { interfaceVersion, probe } from "../api.js";
import { formatAmount, grouped } from "../amounts.js";
import { fill, h } from "../dom.js";
import { age, badge, blockLink, card, facts, hashLink } from "../widgets.js";

/** @import { Probed } from "../api.js" */
/** @import { Live } from "../live.js" */
/** @import { View } from "../router.js" */

/** @type {["/health" | "/startup" | "/ready", string][]} */
const PROBES = [
    ["/health", "The process answers"],
    ["/startup", "The store is open and the mempool is restored"],
    ["/ready", "A write to the disk and a read of it succeed, and the mempool takes transactions"],
];

/** @param {Probed} probed */
function verdict({ status, body, tookMs }) {
    if (status === 0) return badge("failed", "No answer");
    return [
        badge(status === 200 ? "confirmed" : "failed", `${status} ${body.status ?? ""}`.trim()),
        ` in ${tookMs.toFixed(0)} ms`,
        Object.entries(body.checks ?? {}).map(([part, said]) =>
            h("p", { class: `remark ${said === "ok" ? "" : "wrong"}` }, `${part}: ${said}`),
        ),
    ];
}

/** @param {Probed[]} answers */
const probeFacts = (answers) =>
    facts(
        ...PROBES.map(([path, meaning], index) => {
            /** @type {[string, import("../dom.js").Child]} */
            const pair = [path, [verdict(answers[index]), h("p", { class: "hint" }, meaning)]];
            return pair;
        }),
    );

/**
 * @param {Live} live
 * @param {string} version
 */
function nodeFacts({ chain }, version) {
    const isAlone = chain.engine === "embedded";
    return facts(
        ["Version", chain.version],
        ["API version", version],
        ["Engine", `${chain.engine}: ${isAlone ? "this node makes the blocks" : "validators agree on each block"}`],
        ["Chain id", chain.chainId.toString()],
        ["Gas price", `${formatAmount(chain.gasPrice, "gwei")} gwei`],
        ["Gas limit of a block", grouped(chain.blockGasLimit)],
        ["REST API", h("span", { class: "code whole" }, location.origin)],
        ["JSON-RPC", h("span", { class: "code whole" }, `${location.origin}/rpc`)],
    );
}

/** @param {Live} live */
function chainFacts({ chain: { head, mempool } }) {
    const isGenesis = head.blockHeight === 0n;
    const free = mempool.limit - mempool.pending - mempool.queued;
    return facts(
        ["Latest block", [blockLink(head.blockHeight), " ", hashLink("block", head.hash)]],
        ["Made", isGenesis ? "with the chain: it is the genesis block" : age(head.timestamp)],
        ["Pending", grouped(mempool.pending)],
        ["Queued", grouped(mempool.queued)],
        ["Free in the mempool", `${grouped(free)} of ${grouped(mempool.limit)}`],
    );
}

/** @type {View} */
export async function statusView({ live, signal }) {
    await live.loaded;
    const version = await interfaceVersion(signal);
    const [probes, chain] = [h("div"), h("div")];
    const show = async () => {
        fill(chain, chainFacts(live));
        const answers = await Promise.all(PROBES.map(([path]) => probe(path, signal)));
        fill(probes, probeFacts(answers));
    };
    live.on("chain", () => show().catch(() => {}), signal);
    live.on("connection", () => show().catch(() => {}), signal);
    await show();
    return {
        title: "Status",
        content: h(
            "div",
            { class: "view" },
            h("div", { class: "page-head" }, h("h1", null, "Status of this node")),
            h("div", { class: "columns" }, card("Probes", probes), card("Chain", chain)),
            card("Node", nodeFacts(live, version)),
        ),
    };
}
