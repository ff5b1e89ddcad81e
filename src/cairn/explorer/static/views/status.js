// The node itself: its version, its probes, its peers and disk, how far it is, and how full its mempool is.

import { asFailure, interfaceVersion, probe, rpc } from "../api.js";
import { formatAmount, grouped } from "../amounts.js";
import { fill, h } from "../dom.js";
import { paced } from "../live.js";
import { trust } from "../trust.js";
import { verdictOf } from "../verdicts.js";
import { age, badge, blockLink, card, copyable, facts, hashLink, pageHead, view } from "../widgets.js";

/** @import { Chain, Probed } from "../api.js" */
/** @import { Child } from "../dom.js" */
/** @import { Live } from "../live.js" */
/** @import { Context, View } from "../router.js" */

const PROBE_REST_MS = 500;
/** The node does not measure its disk more often. */
const MEASURE_REST_MS = 5_000;
const BYTE_UNITS = ["bytes", "kB", "MB", "GB", "TB", "PB"];

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
            /** @type {[string, Child]} */
            const pair = [path, [verdict(answers[index]), h("p", { class: "hint" }, meaning)]];
            return pair;
        }),
    );

/** @param {Chain} chain */
const isAlone = ({ engine }) => engine === "embedded";

/** @param {string} why */
const notKnown = (why) => ["–", h("p", { class: "hint" }, why)];

/**
 * Three digits at most, and every one of them where the pointer rests.
 * @param {bigint} bytes
 */
function byteSize(bytes) {
    const power = Math.min(BYTE_UNITS.length - 1, Math.floor((bytes.toString().length - 1) / 3));
    const size = Number(bytes) / 1_000 ** power;
    const digits = power === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
    return h("span", { title: `${grouped(bytes)} bytes` }, `${size.toFixed(digits)} ${BYTE_UNITS[power]}`);
}

/**
 * A number that the node gives over JSON-RPC, or a dash and why there is none.
 * @param {string} method
 * @param {(number: bigint) => Child} show
 * @param {AbortSignal} signal
 * @returns {Promise<Child>}
 */
async function figure(method, show, signal) {
    try {
        const [result] = await rpc(method, [[]], signal);
        return result === null ? notKnown(`The node does not answer ${method}.`) : show(BigInt(result));
    } catch (failure) {
        if (signal.aborted) throw failure;
        return notKnown(`JSON-RPC: ${asFailure(failure).message}`);
    }
}

/**
 * @param {Live} live
 * @param {string} version
 * @param {{ peers: HTMLElement, disk: HTMLElement }} places
 */
function nodeFacts({ chain }, version, { peers, disk }) {
    const isNetwork = !isAlone(chain);
    const note = h("p", { class: "hint" }, "CometBFT's own files are not counted.");
    return facts(
        ["Version", chain.version],
        ["API version", version],
        ["Engine", `${chain.engine}: ${isNetwork ? "validators agree on each block" : "this node makes the blocks"}`],
        isNetwork && ["Peers", peers],
        ["Data on disk", [disk, isNetwork && note]],
        ["Chain id", chain.chainId.toString()],
        ["Gas price", `${formatAmount(chain.gasPrice, "gwei")} gwei`],
        ["Gas limit of a block", grouped(chain.blockGasLimit)],
        ["REST API", h("span", { class: "code whole" }, location.origin)],
        ["JSON-RPC", h("span", { class: "code whole" }, `${location.origin}/rpc`)],
    );
}

/**
 * Whether newer blocks exist than the node has: /ready says so of a node of a network.
 * @param {Chain} chain
 * @param {Probed} ready
 */
function lag(chain, { body }) {
    if (isAlone(chain)) return h("p", { class: "hint" }, "This node makes the blocks, so it cannot be behind.");
    const { engine, peers } = body.checks ?? {};
    const said = engine === "ok" ? peers : engine;
    if (said === undefined || said === "unknown") return notKnown("/ready does not say whether it is catching up.");
    if (said === "ok") return h("p", { class: "hint" }, "It has caught up with its peers.");
    return h("p", { class: "remark wrong" }, said);
}

/**
 * @param {Live} live
 * @param {Probed} ready
 */
function chainFacts({ chain }, ready) {
    const { head, mempool } = chain;
    const isGenesis = head.blockHeight === 0n;
    const made = isGenesis ? "Only the genesis block so far" : ["Latest block made ", age(head.timestamp)];
    const free = mempool.limit - mempool.pending - mempool.queued;
    return facts(
        ["Latest block", [blockLink(head.blockHeight), " ", hashLink("block", head.hash)]],
        ["Lag", [made, lag(chain, ready)]],
        ["Pending", grouped(mempool.pending)],
        ["Queued", grouped(mempool.queued)],
        ["Free in the mempool", `${grouped(free)} of ${grouped(mempool.limit)}`],
    );
}

/**
 * What this browser remembers of the chain, and whether the node still fits it.
 * @param {Context} context
 */
function memoryCard(context) {
    const { signal, again } = context;
    const place = h("div");
    const show = () => {
        const { memory } = trust;
        if (memory === null) return fill(place, h("p", { class: "hint" }, "Nothing yet."));
        const seen = memory.head && [blockLink(BigInt(memory.head.height)), " ", hashLink("block", `0x${memory.head.hash}`)];
        const dev = "None: everybody has the key of a dev chain, and may rewrite its history.";
        return fill(
            place,
            facts(
                ["Genesis digest", copyable(`0x${memory.digest}`, "genesis digest")],
                ["Remembered since", new Date(memory.since).toLocaleString()],
                ["Latest block seen signed", seen ?? (memory.isDev ? dev : "None yet")],
            ),
        );
    };
    trust.addEventListener("change", show, { signal });
    show();
    const forget = () => {
        trust.forget();
        again();
    };
    return card(
        "What this browser remembers",
        place,
        verdictOf(() => trust.check("/block/latest/finality", signal), context),
        h(
            "p",
            { class: "hint about" },
            "The genesis is the one that this node gave at your first visit. Compare its digest with that of somebody ",
            "whom you trust. Later visits hold the node to it, and to the latest block that you have seen.",
        ),
        h("p", { class: "actions" }, h("button", { type: "button", class: "button", onclick: forget }, "Forget it")),
    );
}

/** @type {View} */
export async function statusView(context) {
    const { live, signal } = context;
    await live.loaded;
    const version = await interfaceVersion(signal);
    const [probes, chain] = [h("div"), h("div")];
    const places = { peers: h("div"), disk: h("div") };
    const showProbes = async () => {
        const answers = await Promise.all(PROBES.map(([path]) => probe(path, signal)));
        fill(probes, probeFacts(answers));
        fill(chain, chainFacts(live, answers[answers.length - 1]));
    };
    const measure = async () => {
        const [peers, disk] = await Promise.all([
            isAlone(live.chain) ? null : figure("net_peerCount", grouped, signal),
            figure("cairn_dataSize", byteSize, signal),
        ]);
        fill(places.peers, peers);
        fill(places.disk, disk);
    };
    await showProbes();
    const remeasure = paced(measure, MEASURE_REST_MS, signal);
    // Not waited for: the page must be there also when the disk hangs.
    void remeasure();
    for (const follow of [paced(showProbes, PROBE_REST_MS, signal), remeasure]) {
        live.on("chain", follow, signal);
        live.on("connection", follow, signal);
    }
    return view(
        "Status",
        pageHead("Status of this node"),
        h("div", { class: "columns" }, card("Probes", probes), card("Chain", chain)),
        memoryCard(context),
        card("Node", nodeFacts(live, version, places)),
    );
}
