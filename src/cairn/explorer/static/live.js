// What the page knows of the chain right now: the newest blocks, the mempool, and whether the node is there.

import { getChain, listBlocks, pause } from "./api.js";
import { BlockEvents } from "./events.js";

/** @import { Header, Chain } from "./api.js" */
/** @import { Connection, NewBlock } from "./events.js" */
/** @typedef {"blocks" | "chain" | "connection" | "reset"} Change */

export const RECENT = 60;
const REFRESH_MS = 300;
const CHAIN_MS = 3_000;

/**
 * A reading of the node for a view that follows it: one at a time with a rest in between, however fast changes come.
 * A change meanwhile leads to one more.
 * @param {() => Promise<unknown>} read
 * @param {number} restMs
 * @param {AbortSignal} signal
 */
export function paced(read, restMs, signal) {
    let isReading = false;
    let isBehind = false;
    return async () => {
        isBehind = true;
        if (isReading) return;
        isReading = true;
        while (isBehind && !signal.aborted) {
            isBehind = false;
            // It fails when the node is away for a moment, or the view is gone; the next change reads again.
            await read().catch(() => {});
            await pause(restMs);
        }
        isReading = false;
    };
}

export class Live extends EventTarget {
    /** @type {Connection} */
    connection = "connecting";
    /**
     * Summaries of the newest blocks, newest first, without a hole.
     * @type {Header[]}
     */
    blocks = [];
    /** Done once there is something to show. */
    loaded = new Promise((resolve) => {
        this.addEventListener("blocks", resolve, { once: true });
    });
    /** @type {Chain | null} */
    #chain = null;

    #events = new BlockEvents({
        resume: (isReverted) => this.#resume(isReverted),
        onBlock: (event) => this.#hear(event),
        onState: (state) => this.#become(state),
    });
    #isRefreshing = false;
    #isBehind = false;
    /** @type {string | null} */
    #staleHash = null;

    /** The answer of GET /chain; there once `loaded` is done. */
    get chain() {
        if (!this.#chain) throw new Error("the chain was not read yet");
        return this.#chain;
    }

    start() {
        this.#events.connect();
        setInterval(() => this.#poll(), CHAIN_MS);
        document.addEventListener("visibilitychange", () => this.#poll());
    }

    /**
     * Call `listener` at every change of that kind until `signal` aborts.
     * @param {Change} kind
     * @param {() => unknown} listener
     * @param {AbortSignal} [signal]
     */
    on(kind, listener, signal) {
        this.addEventListener(kind, listener, { signal });
    }

    /** @param {Change} kind */
    #tell(kind) {
        this.dispatchEvent(new Event(kind));
    }

    /** @param {Connection} state */
    #become(state) {
        if (state === this.connection) return;
        this.connection = state;
        this.#tell("connection");
    }

    /** The latest height; -1 until it is known. */
    get head() {
        return this.blocks[0]?.blockHeight ?? -1n;
    }

    /**
     * Read what is newest, and say from where to be told more: nothing is missed in between, however long it took.
     * @param {boolean} isReverted
     */
    async #resume(isReverted) {
        await this.#load(isReverted);
        return this.blocks[0].blockHeight + 1n;
    }

    /** @param {NewBlock} block */
    #hear({ blockHeight, hash }) {
        const known = this.blocks.find((block) => block.blockHeight === blockHeight);
        if (known?.hash === hash) return;
        this.#isBehind = true;
        this.#refresh();
    }

    /** One reading at a time and a pause after it: blocks may come faster than anybody can look. */
    async #refresh() {
        if (this.#isRefreshing || document.hidden) return;
        this.#isRefreshing = true;
        try {
            while (this.#isBehind && !document.hidden) {
                this.#isBehind = false;
                await this.#load();
                await pause(REFRESH_MS);
            }
        } catch {
            // The socket ends too when the node has gone, and the next connection reads everything again.
            this.#isBehind = true;
        } finally {
            this.#isRefreshing = false;
        }
    }

    async #load(isReverted = false) {
        const chain = await getChain();
        const [newest] = this.blocks;
        const missing = newest ? chain.head.blockHeight - newest.blockHeight : BigInt(RECENT);
        const isNear = missing >= 0n && missing < BigInt(RECENT);
        // Down to the newest that is here, where both must join; and one more may come meanwhile.
        let { items } = await listBlocks({ limit: isNear ? missing + 2n : RECENT });
        const joint = newest ? items.findIndex((block) => block.hash === newest.hash) : -1;
        if (joint < 0 && isNear) ({ items } = await listBlocks({ limit: RECENT }));
        // Another reading was faster, as after a reconnection: what was read here need not join its blocks.
        if (this.blocks[0] !== newest) {
            await this.#load(isReverted);
            return;
        }
        // Behind a proxy, a node of the network may answer that has yet to get the newest blocks: they stay.
        const isBehind = joint < 0 && this.blocks.some(({ hash }) => hash === items[0].hash);
        if (isBehind && chain.engine !== "embedded") return;
        // A chain that began again, or went back to a snapshot, has other blocks at the same heights.
        const isOther = isReverted || (Boolean(newest) && joint < 0 && this.#contradicts(items));
        this.blocks = (joint < 0 ? items : [...items.slice(0, joint), ...this.blocks]).slice(0, RECENT);
        this.#chain = chain;
        this.#tell("chain");
        if (joint !== 0) this.#tell("blocks");
        if (isOther) this.#tell("reset");
    }

    /** @param {Header[]} items */
    #contradicts(items) {
        if (items[0].blockHeight < this.blocks[0].blockHeight) return true;
        const hashes = new Map(this.blocks.map((block) => [block.blockHeight, block.hash]));
        return items.some((block) => hashes.has(block.blockHeight) && hashes.get(block.blockHeight) !== block.hash);
    }

    /** The mempool sends no events, so it is asked for; that also finds a socket that died without a word. */
    async #poll() {
        if (document.hidden || this.connection !== "live") return;
        this.#refresh();
        try {
            this.#chain = await getChain();
        } catch {
            return;
        }
        this.#tell("chain");
        const isStale = !this.#isRefreshing && this.blocks[0]?.hash !== this.chain.head.hash;
        if (isStale && this.#staleHash === this.blocks[0]?.hash) this.#events.reconnect();
        this.#staleHash = isStale ? this.blocks[0]?.hash : null;
    }
}
