// The node's API, as far as the page uses it. Integers are BigInts.

import { toHex } from "./bytes.js";
import { parseExact } from "./exact.js";
import { queryOf } from "./routes.js";

/** @import { Query } from "./routes.js" */

/**
 * What the node answers, by the names of this page.
 *
 * @typedef {import("../answers.d.ts").Account} Account
 * @typedef {import("../answers.d.ts").Block} Block
 * @typedef {import("../answers.d.ts").Chain} Chain
 * @typedef {import("../answers.d.ts").ConfirmedTransaction} Confirmed
 * @typedef {import("../answers.d.ts").Evidence} Evidence
 * @typedef {import("../answers.d.ts").Header} Header
 * @typedef {import("../answers.d.ts").MempoolItem} MempoolItem
 * @typedef {import("../answers.d.ts").PendingTransaction} Pending
 * @typedef {import("../answers.d.ts").Validator} Validator
 * @typedef {import("../answers.d.ts").Validators} Validators
 * @typedef {Omit<MempoolItem, "receivedAt">} Listed One of any list of transactions.
 * @typedef {import("../answers.d.ts").ProblemCode | "UNKNOWN" | "UNREACHABLE" | "OTHER_ANSWER"} Code
 *
 * @typedef {object} Probed The answer of a probe, whatever it was.
 * @property {number} status 0 when there was none.
 * @property {{ status?: string, checks?: Record<string, string> }} body
 * @property {number} tookMs
 *
 * @typedef {object} Schemas The parts of the OpenAPI document that the page reads.
 * @property {{ "x-signs-for": string[] }} Submission
 * @property {{ "x-usual": bigint, oneOf: { maximum: bigint }[] }} FaucetAmount
 */

/**
 * A page of a list; `after` names where the next begins, and `before` where the previous one ends, as far as the node
 * says. A list of which it does not count the items has no total.
 * @template T
 * @typedef {{ items: T[], after: string | null, before: string | null, total: bigint | null, oldest: bigint }} Page
 */

/**
 * One of a list that is counted.
 * @template T
 * @typedef {Page<T> & { total: bigint }} CountedPage
 */

const RETRIES = 3;
const RETRY_MS = 400;
/** What the node takes in one batch. */
export const MOST_CALLS = 100;
/** The error of a call that came too soon after others. */
const LIMIT_EXCEEDED = -32_005;
const NEXT_PAGE = /<[^>]*[?&]after=([^&>]+)[^>]*>;\s*rel="next"/;
const PREVIOUS_PAGE = /<[^>]*[?&]before=([^&>]+)[^>]*>;\s*rel="prev"/;

/** A refusal of the node, in its own words (application/problem+json). */
export class Problem extends Error {
    /**
     * @param {Partial<import("../answers.d.ts").Problem>} problem
     * @param {number} status
     */
    constructor(problem, status) {
        super(problem.detail ?? `The node answered ${status}.`);
        this.name = "Problem";
        /** @type {Code} */
        this.code = problem.code ?? "UNKNOWN";
        this.reason = problem.reason ?? null;
        this.status = status;
    }
}

/** No answer came: the node is down, or the network is. */
export class Unreachable extends Error {
    constructor() {
        super("The node does not answer.");
        this.name = "Unreachable";
        /** @type {Code} */
        this.code = "UNREACHABLE";
    }
}

/** The answer is longer than what was asked for, and was not read to its end. */
class TooLong extends Error {}

/** The answer is about something else than what was asked for: no node does that unless it lies. */
class OtherAnswer extends Error {
    /**
     * @param {string} asked
     * @param {unknown} answered
     */
    constructor(asked, answered) {
        super(`The node was asked for ${asked}, and answers with ${answered}.`);
        this.name = "OtherAnswer";
        /** @type {Code} */
        this.code = "OTHER_ANSWER";
    }
}

/** @typedef {Error & { code?: Code | number, status?: number, reason?: string | null }} Failure */

/**
 * What was thrown, with what is known of it.
 * @param {unknown} thrown
 * @returns {Failure}
 */
export const asFailure = (thrown) => (thrown instanceof Error ? thrown : new Error(String(thrown)));

/**
 * Whether the node has refused with one of these statuses.
 * @param {unknown} failure
 * @param {number[]} statuses
 */
export const isProblem = (failure, ...statuses) => failure instanceof Problem && statuses.includes(failure.status);

/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function pause(ms, signal) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, ms);
        signal?.addEventListener("abort", () => {
            clearTimeout(timer);
            reject(signal.reason);
        });
    });
}

/**
 * The text of an answer that may be too long. The node does not always say beforehand how long one is.
 * @param {Response} response
 * @param {number} mostBytes
 */
async function textWithin({ body }, mostBytes) {
    if (body === null) return "";
    const [reader, decoder] = [body.getReader(), new TextDecoder()];
    let [text, bytes] = ["", 0];
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        bytes += piece.value.length;
        if (bytes > mostBytes) {
            await reader.cancel();
            throw new TooLong(`The answer has more than ${mostBytes} bytes.`);
        }
        text += decoder.decode(piece.value, { stream: true });
    }
    return text + decoder.decode();
}

/**
 * @param {string} path
 * @param {RequestInit} options
 * @param {number} [mostBytes]
 */
async function askText(path, options, mostBytes) {
    let response;
    let text;
    try {
        response = await fetch(path, options);
        text = await (mostBytes === undefined ? response.text() : textWithin(response, mostBytes));
    } catch (failure) {
        if (options.signal?.aborted || failure instanceof TooLong) throw failure;
        throw new Unreachable();
    }
    return { text, response };
}

/**
 * @param {string} path
 * @param {RequestInit} options
 */
async function ask(path, options) {
    const { text, response } = await askText(path, options);
    const isJson = /[/+]json/.test(response.headers.get("content-type") ?? "");
    const body = isJson ? parseExact(text) : {};
    if (!response.ok) throw new Problem(body, response.status);
    return { body, headers: response.headers };
}

/**
 * A request, once more when the node is busy for a moment: for those that change nothing.
 * @template T
 * @param {() => Promise<T>} request
 * @param {AbortSignal} [signal]
 */
async function patiently(request, signal) {
    for (let attempt = 1; ; attempt += 1) {
        try {
            return await request();
        } catch (failure) {
            if (!isProblem(failure, 429, 503) || attempt > RETRIES) throw failure;
            await pause(RETRY_MS * attempt, signal);
        }
    }
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 */
const get = (path, signal) => patiently(() => ask(path, { signal }), signal);

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 */
async function read(path, signal) {
    return (await get(path, signal)).body;
}

/**
 * @param {string} path
 * @param {Query} parameters
 * @param {AbortSignal} [signal]
 */
async function readPage(path, parameters, signal) {
    const { body, headers } = await get(`${path}?${queryOf(parameters)}`, signal);
    /** @param {RegExp} pattern */
    const cursor = (pattern) => {
        const found = pattern.exec(headers.get("link") ?? "");
        return found && decodeURIComponent(found[1]);
    };
    const total = headers.get("x-total-count");
    return {
        items: body,
        after: cursor(NEXT_PAGE),
        before: cursor(PREVIOUS_PAGE),
        total: total === null ? null : BigInt(total),
        oldest: BigInt(headers.get("x-oldest-block") ?? 0),
    };
}

/**
 * @param {string} path
 * @param {Query} parameters
 * @param {AbortSignal} [signal]
 */
async function readCounted(path, parameters, signal) {
    const page = await readPage(path, parameters, signal);
    return { ...page, total: page.total ?? BigInt(page.items.length) };
}

/**
 * @param {string} path
 * @param {object} body
 * @param {AbortSignal} [signal]
 * @param {Record<string, string>} more Headers.
 */
async function post(path, body, signal, more = {}) {
    const headers = { "content-type": "application/json", ...more };
    return (await ask(path, { method: "POST", headers, body: JSON.stringify(body), signal })).body;
}

/** @type {(signal?: AbortSignal) => Promise<Chain>} */
export const getChain = (signal) => read("/chain", signal);

/**
 * @param {string} asked
 * @param {unknown} answered
 */
function sameAs(asked, answered) {
    if (String(answered) !== asked.toLowerCase()) throw new OtherAnswer(asked, answered);
}

/**
 * By hash or by height.
 * @param {string} name
 * @param {AbortSignal} [signal]
 * @returns {Promise<Block>}
 */
export async function getBlock(name, signal) {
    const block = await read(`/block/${name}`, signal);
    if (/^0x/i.test(name)) sameAs(name, block.hash);
    else if (name !== "latest") sameAs(BigInt(name).toString(), block.blockHeight);
    return block;
}

/**
 * @param {string} hash
 * @param {string} query
 * @param {AbortSignal} [signal]
 * @returns {Promise<Confirmed | Pending>}
 */
async function readTransaction(hash, query, signal) {
    const tx = await read(`/tx/${hash}${query}`, signal);
    sameAs(hash, tx.txHash);
    return tx;
}

/** @type {(hash: string, signal?: AbortSignal) => Promise<Confirmed | Pending>} */
export const getTransaction = (hash, signal) => readTransaction(hash, "", signal);

/** @type {(hash: string, seconds: number, signal?: AbortSignal) => Promise<Confirmed | Pending>} */
export const awaitTransaction = (hash, seconds, signal) => readTransaction(hash, `?wait=${seconds}`, signal);

/**
 * A file as it is, for those who read it by rules of their own. One with more bytes than `mostBytes` is an error.
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @param {number} [mostBytes]
 */
export async function getFile(path, signal, mostBytes) {
    return patiently(async () => {
        const { text, response } = await askText(path, { signal }, mostBytes);
        if (response.ok) return text;
        let problem = {};
        try {
            problem = Object(JSON.parse(text));
        } catch {
            // No node of ours answers so; the status has to do.
        }
        throw new Problem(problem, response.status);
    }, signal);
}

/**
 * @param {string} address
 * @param {AbortSignal} [signal]
 * @returns {Promise<Account>}
 */
export async function getAccount(address, signal) {
    const account = await read(`/account/${address}`, signal);
    sameAs(address, account.address);
    return account;
}

/** @type {(parameters: Query, signal?: AbortSignal) => Promise<CountedPage<Header>>} */
export const listBlocks = (parameters, signal) => readCounted("/blocks", parameters, signal);

/** @type {(parameters: Query, signal?: AbortSignal) => Promise<CountedPage<MempoolItem>>} */
export const listMempool = (parameters, signal) => readCounted("/mempool", parameters, signal);

/** @type {(address: string, parameters: Query, signal?: AbortSignal) => Promise<Page<Confirmed>>} */
export const listHistory = (address, parameters, signal) => readPage(`/account/${address}/txs`, parameters, signal);

/**
 * Payments that the node signs. One that is asked for again, because its answer was lost, is made once.
 * @param {string} path
 * @returns {(payment: object) => Promise<{ txHash: string }>}
 */
function paidOnce(path) {
    let [asked, key] = ["", ""];
    return async (payment) => {
        const text = JSON.stringify(payment);
        // Not randomUUID: a page that came over plain HTTP from another machine has none.
        if (text !== asked) [asked, key] = [text, toHex(crypto.getRandomValues(new Uint8Array(16)))];
        const answer = await post(path, payment, undefined, { "idempotency-key": key });
        asked = "";
        return answer;
    };
}

export const submit = paidOnce("/tx");
const fromFaucet = paidOnce("/faucet");

/** @type {(address: string, amount: bigint) => Promise<{ txHash: string }>} */
export const askFaucet = (address, amount) => fromFaucet({ address, amount: amount.toString() });

/** @type {(signal?: AbortSignal) => Promise<Validators>} */
export const getValidators = (signal) => read("/validators", signal);

/**
 * What a probe answers, and how long that took.
 * @param {"/health" | "/startup" | "/ready"} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<Probed>}
 */
export async function probe(path, signal) {
    const begun = performance.now();
    try {
        const response = await fetch(path, { signal });
        const body = await response.json();
        return { status: response.status, body, tookMs: performance.now() - begun };
    } catch (failure) {
        if (signal?.aborted) throw failure;
        return { status: 0, body: {}, tookMs: performance.now() - begun };
    }
}

/**
 * The results of JSON-RPC calls of one method that reads, in their order; null where the node has none, or an error.
 * @param {string} method
 * @param {unknown[][]} calls
 * @param {AbortSignal} [signal]
 * @returns {Promise<any[]>}
 */
export async function rpc(method, calls, signal) {
    const results = [];
    for (let first = 0; first < calls.length; first += MOST_CALLS) {
        results.push(...(await rpcBatch(method, calls.slice(first, first + MOST_CALLS), signal)));
    }
    return results;
}

/**
 * Each call counts for the limit of requests, so those that were too many are made again a moment later.
 * @param {string} method
 * @param {unknown[][]} calls
 * @param {AbortSignal} [signal]
 */
async function rpcBatch(method, calls, signal) {
    /** @type {Map<number, unknown>} */
    const results = new Map();
    let batch = calls.map((params, id) => ({ jsonrpc: "2.0", id, method, params }));
    for (let attempt = 1; ; attempt += 1) {
        const asked = batch;
        /** @type {{ id: bigint, result?: unknown, error?: { code: bigint } }[] | { error?: { message: string } }} */
        const answers = await patiently(() => post("/rpc", asked, signal), signal);
        // A batch that is refused as a whole has one answer.
        if (!Array.isArray(answers)) throw new Problem({ detail: answers.error?.message }, 200);
        for (const { id, result, error } of answers) {
            if (Number(error?.code) !== LIMIT_EXCEEDED) results.set(Number(id), result ?? null);
        }
        batch = asked.filter(({ id }) => !results.has(id));
        if (batch.length === 0 || attempt > RETRIES) return calls.map((_, id) => results.get(id) ?? null);
        await pause(RETRY_MS * attempt, signal);
    }
}

/** @type {{ info: { version: string }, components: { schemas: Schemas } } | null} */
let described = null;

/**
 * The node's own description, as far as it is used here.
 * @param {AbortSignal} [signal]
 */
async function description(signal) {
    described ??= /** @type {NonNullable<typeof described>} */ (await read("/openapi.json", signal));
    return described;
}

/** Ask for it again next time: the node may have become another. */
export function forgetDescription() {
    described = null;
}

/** @param {AbortSignal} [signal] */
const schemas = async (signal) => (await description(signal)).components.schemas;

/** @param {AbortSignal} [signal] */
export const interfaceVersion = async (signal) => (await description(signal)).info.version;

/**
 * The accounts that need no signature: dev0, dev1 and so on. None on any chain but a dev chain.
 * @param {AbortSignal} [signal]
 */
export async function devAccounts(signal) {
    return (await schemas(signal)).Submission["x-signs-for"];
}

/**
 * What the faucet gives, in wei: {usual, most}.
 * @param {AbortSignal} [signal]
 */
export async function faucetAmounts(signal) {
    const { FaucetAmount } = await schemas(signal);
    return { usual: FaucetAmount["x-usual"], most: FaucetAmount.oneOf[0].maximum };
}
