// What this browser remembers of the chain at this address: the digest of its genesis, and the latest signed head that
// it has checked. A proof holds only under that genesis, and in one history with that head.

import { getFile, isProblem } from "./api.js";
import { checkFile, NotProven, readGenesis } from "./verify.mjs";

/**
 * What verify.mjs proves. Bytes are hexadecimal text without 0x.
 *
 * @typedef {object} ProvenBlock
 * @property {string} header
 * @property {string} hash
 * @property {string} previousHash
 * @property {string} proposer
 * @property {string} stateRoot
 * @property {string} transactionsRoot
 * @property {string} receiptsRoot
 * @property {string} mixHash
 * @property {bigint} height
 * @property {bigint} time
 * @property {bigint} gasLimit
 * @property {bigint} gasUsed
 * @property {bigint} baseFeePerGas
 * @property {bigint} transactionCount
 *
 * @typedef {object} ProvenPayment
 * @property {string} hash
 * @property {bigint} index
 * @property {number} type
 * @property {string} from
 * @property {string} to
 * @property {bigint} value
 * @property {bigint} nonce
 * @property {bigint} gas
 * @property {bigint} gasPrice
 * @property {bigint} maxFee
 * @property {bigint} maxTip
 * @property {bigint} fee
 * @property {string} data
 *
 * @typedef {{ by: string[], validators: number, power: bigint, of: bigint, steps: number, everybodyHasTheKey: boolean }} Signed
 * @typedef {{ digest: string, chainId: bigint, everybodyHasTheKey: boolean }} Genesis
 * @typedef {{ head: ProvenBlock, signed: Signed }} Report
 * @typedef {Report & { block: ProvenBlock }} FinalityReport
 * @typedef {FinalityReport & { payment: ProvenPayment }} ReceiptReport
 * @typedef {Report & { address: string, height: bigint, balance: bigint, nonce: bigint }} AccountReport
 * @typedef {{ balance: bigint, nonce: bigint }} Holding
 * @typedef {{ address: string, from: bigint, to: bigint, opening: Holding, closing: Holding }} StatementRange
 * @typedef {Report & StatementRange & { entries: { payments: ProvenPayment[] }[] }} StatementReport
 * @typedef {Report & { first: ProvenBlock, second: ProvenBlock }} HistoryReport
 *
 * @typedef {{ height: string, hash: string, header: string }} Head
 * @typedef {{ digest: string, isDev: boolean, since: number, head: Head | null }} Memory
 */

const KEY = "cairn-trust";
const LATEST =
    "The node has confirmed it, and confirmed is final. The signatures by which this page can check that come with the " +
    "next payment.";

/** The node has shown something that cannot be true. */
export class Doubt extends Error {}

/** Nothing is wrong, and yet nothing can be checked: never, or not yet. */
export class Unchecked extends Error {
    /**
     * @param {string} words
     * @param {boolean} mayPass
     */
    constructor(words, mayPass) {
        super(words);
        this.mayPass = mayPass;
    }
}

/** Browsers have WebCrypto on pages that come over https or from localhost. */
export const canCheck = () => globalThis.crypto?.subtle !== undefined;

/** @returns {Memory | null} */
function recall() {
    try {
        const { digest, isDev, since, head } = JSON.parse(localStorage.getItem(KEY) ?? "null");
        const isHead = head === null || (/^\d+$/.test(head.height) && /^[0-9a-f]{64}$/.test(head.hash) && /^[0-9a-f]+$/.test(head.header));
        return /^[0-9a-f]{64}$/.test(digest) && isHead ? { digest, isDev, since: Number(since), head } : null;
    } catch {
        return null; // Storage may be forbidden, or hold nothing or something else.
    }
}

/**
 * @param {string} text
 * @returns {Promise<Genesis>}
 */
async function readText(text) {
    return readGenesis(new TextEncoder().encode(text)).catch(() => {
        throw new Doubt("The genesis that this node gives cannot be read.");
    });
}

class Trust extends EventTarget {
    /**
     * As long as the page lasts, even where storage is forbidden.
     * @type {Memory | null}
     */
    #memory = recall();
    /** @type {Promise<Genesis> | null} */
    #genesis = null;
    /**
     * What is wrong with all that the node shows, in plain words; null while nothing is.
     * @type {string | null}
     */
    alarm = null;

    /** What is remembered now; another tab may have seen more. */
    get memory() {
        this.#memory = recall() ?? this.#memory;
        return this.#memory;
    }

    /** @param {Memory | null} memory */
    #remember(memory) {
        this.#memory = memory;
        try {
            if (memory === null) localStorage.removeItem(KEY);
            else localStorage.setItem(KEY, JSON.stringify(memory));
        } catch {
            // It then lasts as long as the page.
        }
        this.dispatchEvent(new Event("change"));
    }

    /**
     * What holds for everything that this node shows is said above every view.
     * @param {string | null} words
     */
    #raise(words) {
        this.alarm = words;
        this.dispatchEvent(new Event("change"));
        return new Doubt(words ?? "");
    }

    /** Believe what the node says from now on: the choice of a person. */
    forget() {
        this.alarm = null;
        this.#genesis = null;
        this.#remember(null);
    }

    /** The node may have been replaced: its genesis is asked for again. */
    ask() {
        this.#genesis = null;
    }

    /**
     * The node's genesis, if it is the one that is remembered. Throws `Doubt` if it is another.
     * @returns {Promise<Genesis>}
     */
    async genesis() {
        this.#genesis ??= getFile("/genesis").then(readText);
        const asked = this.#genesis;
        try {
            const genesis = await asked;
            const { digest, everybodyHasTheKey: isDev } = genesis;
            // Dev chains come and go at one address, and there is nothing to protect.
            if (this.memory === null || (this.memory.digest !== digest && this.memory.isDev && isDev)) {
                this.#remember({ digest, isDev, since: Date.now(), head: null });
            }
            if (this.memory?.digest === digest) return genesis;
        } catch (failure) {
            if (this.#genesis === asked) this.#genesis = null;
            throw failure;
        }
        throw this.#raise(
            "This node has another genesis than the one that this browser remembers of this address: it is another " +
                "chain. Nothing that it shows is proven.",
        );
    }

    /**
     * Checks the file that the node gives at this path: under the remembered genesis, and in one history with the
     * latest head that was seen. Throws `Doubt` if it does not hold, and `Unchecked` if that cannot be known.
     * @param {string} path
     * @param {AbortSignal} signal
     * @returns {Promise<Report & { text: string }>}
     */
    async check(path, signal) {
        if (!canCheck()) {
            throw new Unchecked(
                "Browsers check signatures only on pages that come over https or from localhost.",
                false,
            );
        }
        const genesis = await this.genesis();
        const text = await getFile(path, signal).catch((failure) => {
            throw isProblem(failure, 404) && failure.code === "NOT_SIGNED_YET"
                ? new Unchecked(LATEST, true)
                : failure;
        });
        const report = await this.proven(text);
        // On a dev chain everybody can rewrite history, and people do so on purpose.
        if (!genesis.everybodyHasTheKey) await this.#follow(report.head, genesis.digest, signal);
        return { ...report, text };
    }

    /**
     * What a file proves under the remembered genesis.
     * @param {string} text
     * @returns {Promise<Report>}
     */
    async proven(text) {
        try {
            return /** @type {Report} */ (await checkFile(await this.genesis(), text));
        } catch (failure) {
            throw failure instanceof NotProven ? new Doubt(`The proof does not hold: ${failure.message}.`) : failure;
        }
    }

    /**
     * The head must be in one history with the latest that was seen, and becomes that if it is later.
     * @param {ProvenBlock} head
     * @param {string} digest Of the genesis under which it is proven.
     * @param {AbortSignal} signal
     * @returns {Promise<void>}
     */
    async #follow(head, digest, signal) {
        const seen = this.memory?.head;
        if (seen && seen.hash !== head.hash) await this.#needOneHistory(seen, head, signal);
        const { memory } = this;
        if (memory?.digest !== digest) return;
        // Another check, or another tab, has seen another head while this one waited for the node.
        if (memory.head?.hash !== seen?.hash) {
            await this.#follow(head, digest, signal);
        } else if (!seen || BigInt(seen.height) < head.height) {
            const { height, hash, header } = head;
            this.#remember({ ...memory, head: { height: height.toString(), hash, header } });
        }
    }

    /**
     * @param {Head} seen
     * @param {ProvenBlock} head
     * @param {AbortSignal} signal
     */
    async #needOneHistory(seen, head, signal) {
        const last = { ...seen, height: BigInt(seen.height) };
        const [older, newer] = last.height < head.height ? [last, head] : [head, last];
        if (older.height === newer.height) throw this.#rewritten(last.height);
        const path = `/history/proof?from=${older.height}&to=${newer.height}&known=true`;
        const text = await getFile(path, signal).catch((failure) => {
            if (!isProblem(failure, 400, 404, 410, 422)) throw failure;
            const words =
                `cannot show that its chain still holds block ${last.height}, which this browser has seen. ` +
                `It says: ${failure.message}`;
            // One that began with a later snapshot has never had the history before it.
            if (failure.code === "BLOCK_NOT_KEPT") throw new Unchecked(`This node ${words}`, false);
            throw this.#raise(`This node ${words}`);
        });
        // The node may have removed the older block. This browser has its header.
        const whole = text.replace(/("first":\s*)"0x"/, `$1"0x${older.header}"`);
        const { first, second } = await /** @type {Promise<HistoryReport>} */ (this.proven(whole)).catch((failure) => {
            throw failure instanceof Doubt ? this.#rewritten(last.height) : failure;
        });
        if (first.hash !== older.hash || second.hash !== newer.hash) throw this.#rewritten(last.height);
    }

    /** @param {bigint} height */
    #rewritten(height) {
        return this.#raise(
            `History was rewritten: block ${height}, which this browser has seen signed, is not in the history that this ` +
                "node shows. Do not rely on what it shows.",
        );
    }

    /**
     * A balance must not be older than what was seen. Throws `Doubt`.
     * @param {ProvenBlock} head
     */
    needLatest({ height }) {
        const seen = this.memory?.head;
        if (seen && height < BigInt(seen.height)) {
            throw new Doubt(
                `The proof is of block ${height}, and this browser has seen block ${seen.height} of this chain already: ` +
                    "the node is behind, or hides what happened since.",
            );
        }
    }
}

export const trust = new Trust();
