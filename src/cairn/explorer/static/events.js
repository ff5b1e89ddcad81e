// The socket to /events: new blocks, again and again after every loss of the connection.

import { parseExact } from "./exact.js";

const FIRST_RETRY_MS = 300;
const LAST_RETRY_MS = 8_000;
/** Closes the socket of a dev chain that went back to a snapshot: the node is there, and some blocks are not. */
const CHAIN_REVERTED = 4205;

/** @typedef {"connecting" | "live" | "offline"} Connection */
/** @typedef {{ blockHeight: bigint, hash: string }} NewBlock */

export class BlockEvents {
    /** @type {WebSocket | null} */
    #socket = null;
    #retryMs = FIRST_RETRY_MS;
    /** @type {number | undefined} */
    #timer;
    #isReverted = false;
    #isLive = false;

    /**
     * `resume` is asked at every connection for the height to be told from: one above what the page shows. It is told
     * whether the chain was reverted since the last. `onBlock` then gets every block from there on, in order.
     * `onState` hears "live", "connecting" when the connection is lost, and "offline" when there is no new one at once.
     * @param {object} options
     * @param {(isReverted: boolean) => Promise<bigint>} options.resume
     * @param {(block: NewBlock) => void} options.onBlock
     * @param {(state: Connection) => void} options.onState
     */
    constructor({ resume, onBlock, onState }) {
        this.resume = resume;
        this.onBlock = onBlock;
        this.onState = onState;
        window.addEventListener("online", () => this.reconnect());
    }

    connect() {
        const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/events`);
        this.#socket = socket;
        socket.addEventListener("open", () => this.#subscribe(socket));
        socket.addEventListener("close", ({ code }) => this.#retry(socket, code === CHAIN_REVERTED));
        socket.addEventListener("message", (message) => {
            const event = parseExact(message.data);
            if (event.event === "newBlock" && socket === this.#socket) this.onBlock(event);
        });
    }

    /** Give up the present socket, whatever it is doing, and start over at once. */
    reconnect() {
        clearTimeout(this.#timer);
        const old = this.#socket;
        this.#socket = null;
        old?.close();
        this.connect();
    }

    /** @param {WebSocket} socket */
    async #subscribe(socket) {
        try {
            const fromHeight = await this.resume(this.#isReverted);
            if (socket !== this.#socket || socket.readyState !== WebSocket.OPEN) return;
            this.#isReverted = false;
            // Written by hand: JSON.stringify takes no BigInt.
            socket.send(`{"action":"subscribe","event":"newBlock","fromHeight":${fromHeight}}`);
            this.#retryMs = FIRST_RETRY_MS;
            this.#isLive = true;
            this.onState("live");
        } catch {
            socket.close();
        }
    }

    /**
     * @param {WebSocket} socket
     * @param {boolean} isReverted
     */
    #retry(socket, isReverted) {
        if (socket !== this.#socket) return;
        this.#isReverted ||= isReverted;
        // Behind a proxy, another node may be there: only whoever fails to come back is offline.
        this.onState(isReverted || this.#isLive ? "connecting" : "offline");
        this.#isLive = false;
        // Not all pages at the same moment: a node that has just started would meet them all at once.
        this.#timer = setTimeout(() => this.connect(), this.#retryMs * (0.75 + Math.random() / 2));
        this.#retryMs = Math.min(LAST_RETRY_MS, this.#retryMs * 1.7);
    }
}
