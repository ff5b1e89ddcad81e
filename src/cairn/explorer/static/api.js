// The node's REST interface, as far as the page uses it. Integers are BigInts.

import { parseExact } from "./exact.js";

const RETRIES = 3;
const RETRY_MS = 400;
const NEXT_PAGE = /<[^>]*[?&]after=([^&>]+)[^>]*>;\s*rel="next"/;

/** A refusal of the node, in its own words (application/problem+json). */
export class Problem extends Error {
    constructor(problem, status) {
        super(problem.detail ?? `The node answered ${status}.`);
        this.name = "Problem";
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
        this.code = "UNREACHABLE";
    }
}

/** The answer is about something else than what was asked for: no node does that unless it lies. */
export class OtherAnswer extends Error {
    constructor(asked, answered) {
        super(`The node was asked for ${asked}, and answers with ${answered}.`);
        this.name = "OtherAnswer";
        this.code = "OTHER_ANSWER";
    }
}

export function pause(ms, signal) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, ms);
        signal?.addEventListener("abort", () => {
            clearTimeout(timer);
            reject(signal.reason);
        });
    });
}

async function ask(path, options) {
    let response;
    let text;
    try {
        response = await fetch(path, options);
        text = await response.text();
    } catch (failure) {
        if (options.signal?.aborted) throw failure;
        throw new Unreachable();
    }
    const isJson = /[/+]json/.test(response.headers.get("content-type") ?? "");
    const body = isJson ? parseExact(text) : {};
    if (!response.ok) throw new Problem(body, response.status);
    return { body, headers: response.headers };
}

/** GET, once more when the node is busy for a moment: nothing changes by asking again. */
async function get(path, signal) {
    for (let attempt = 1; ; attempt += 1) {
        try {
            return await ask(path, { signal });
        } catch (failure) {
            const isPassing = failure.status === 429 || failure.status === 503;
            if (!isPassing || attempt > RETRIES) throw failure;
            await pause(RETRY_MS * attempt, signal);
        }
    }
}

async function read(path, signal) {
    return (await get(path, signal)).body;
}

async function readPage(path, parameters, signal) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
    const { body, headers } = await get(`${path}?${query}`, signal);
    const next = NEXT_PAGE.exec(headers.get("link") ?? "");
    const total = headers.get("x-total-count");
    return {
        items: body,
        after: next ? decodeURIComponent(next[1]) : null,
        total: total === null ? null : BigInt(total),
    };
}

async function post(path, body) {
    const headers = { "content-type": "application/json" };
    return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).body;
}

export const getChain = (signal) => read("/chain", signal);

function sameAs(asked, answered) {
    if (String(answered) !== asked.toLowerCase()) throw new OtherAnswer(asked, answered);
}

/** By hash or by height. */
export async function getBlock(name, signal) {
    const block = await read(`/block/${name}`, signal);
    if (/^0x/i.test(name)) sameAs(name, block.hash);
    else if (name !== "latest") sameAs(BigInt(name).toString(), block.blockHeight);
    return block;
}

async function readTransaction(hash, query, signal) {
    const tx = await read(`/tx/${hash}${query}`, signal);
    sameAs(hash, tx.txHash);
    return tx;
}

export const getTransaction = (hash, signal) => readTransaction(hash, "", signal);
export const awaitTransaction = (hash, seconds, signal) => readTransaction(hash, `?wait=${seconds}`, signal);
export const getProof = (hash, signal) => read(`/tx/${hash}/proof`, signal);
export const getAccount = (address, signal) => read(`/account/${address}`, signal);
export const listBlocks = (parameters, signal) => readPage("/blocks", parameters, signal);
export const listMempool = (parameters, signal) => readPage("/mempool", parameters, signal);
export const listHistory = (address, parameters, signal) => readPage(`/account/${address}/txs`, parameters, signal);
export const submit = (transaction) => post("/tx", transaction);
export const askFaucet = (address, amount) => post("/faucet", { address, amount: amount.toString() });

let described = null;

/** The schemas of the node's own description. */
async function schemas(signal) {
    described ??= (await read("/openapi.json", signal)).components.schemas;
    return described;
}

/** The accounts that need no signature: dev0, dev1 and so on. None on any chain but a dev chain. */
export async function devAccounts(signal) {
    return (await schemas(signal)).Submission["x-signs-for"];
}

/** What the faucet gives, in wei: {usual, most}. */
export async function faucetAmounts(signal) {
    const { FaucetAmount } = await schemas(signal);
    return { usual: FaucetAmount["x-usual"], most: FaucetAmount.oneOf[0].maximum };
}
