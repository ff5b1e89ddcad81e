// The chain that this node is of, and examples of what is on it: the documents' own are the same everywhere.

import { parseExact, pretty } from "../static/exact.js";

/** @import { Json } from "./schema.js" */

const TRANSFER_GAS = 21_000n;
const LOOKED_AT = 200;

/**
 * @typedef {object} Chain
 * @property {string} version The node's.
 * @property {bigint} chainId
 * @property {bigint} gasPrice
 * @property {boolean} isNetwork
 * @property {string[]} dev The accounts that the node signs for; none on any chain but a dev chain.
 */

/**
 * GET, or POST where there is a body. Throws an Error in the node's own words.
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function read(path, body) {
    const sent = { method: "POST", headers: { "content-type": "application/json" }, body: pretty(body) };
    const response = await fetch(path, body === undefined ? {} : sent);
    const answer = parseExact(await response.text());
    if (!response.ok) throw new Error(answer.detail);
    return answer;
}

/**
 * @param {Json} openapi
 * @returns {Promise<Chain>}
 */
export async function readChain(openapi) {
    const { version, chainId, gasPrice, engine } = await read("/chain");
    const dev = openapi.components.schemas.Submission["x-signs-for"];
    return { version, chainId, gasPrice, isNetwork: engine === "cometbft", dev };
}

/** The hash of the newest confirmed transaction, null if there is none in the newest blocks. */
export async function newestConfirmed() {
    const blocks = await read(`/blocks?limit=${LOOKED_AT}`);
    const found = blocks.find((/** @type {Json} */ block) => block.transactionCount > 0n);
    return found ? (await read(`/block/${found.hash}`)).transactions.at(-1) : null;
}

const newestPending = async () => (await read("/mempool?limit=1"))[0]?.txHash ?? null;

const newestTransaction = async () => (await newestConfirmed()) ?? (await newestPending());

export const newestBlock = () => read("/block/latest");

const hasBlocks = async () => (await newestBlock()).blockHeight > 0n;

/** @param {Chain} chain */
const someAccount = async ({ dev }) => dev[0] ?? (await newestBlock()).proposer;

/**
 * So many transfers, signed by the node for its first dev account; null where it holds no keys.
 * @param {Chain} chain
 * @param {number} count
 */
async function signedTransfers({ dev, chainId, gasPrice }, count) {
    if (!dev.length) return null;
    const { pendingNonce } = await read(`/account/${dev[0]}`);
    const transfers = [];
    for (let nonce = pendingNonce; nonce < pendingNonce + BigInt(count); nonce += 1n) {
        const transfer = { from: dev[0], to: dev[1] ?? dev[0], value: 10n, nonce, gas: TRANSFER_GAS, gasPrice };
        const asked = Object.entries(transfer).map(([name, value]) => [
            name,
            typeof value === "bigint" ? `0x${value.toString(16)}` : value,
        ]);
        const call = { jsonrpc: "2.0", id: 1n, method: "eth_signTransaction", params: [Object.fromEntries(asked)] };
        const { result, error } = await read("/rpc", call);
        if (error) throw new Error(error.message);
        const { r, s, v } = result.tx;
        // EIP-155 puts the chain id into v; POST /tx takes 0 or 1.
        const parity = BigInt(v) - 35n - 2n * chainId;
        const words = [r, s].map((/** @type {string} */ word) => word.slice(2).padStart(64, "0"));
        transfers.push({ ...transfer, signature: `0x${words.join("")}0${parity}` });
    }
    return transfers;
}

/** @param {Chain} chain */
async function signedTransfer(chain) {
    const transfers = await signedTransfers(chain, 1);
    return transfers && pretty(transfers[0]);
}

/** @param {Chain} chain */
async function signedBatch(chain) {
    const transfers = await signedTransfers(chain, 2);
    return transfers && pretty(transfers);
}

/**
 * By operation and parameter: what there is on this chain to try it with, null if nothing.
 * @type {Record<string, Record<string, (chain: Chain) => Promise<string | null>>>}
 */
export const FRESH = {
    submitTransaction: { body: signedTransfer },
    submitTransactions: { body: signedBatch },
    getTransaction: { hash: newestTransaction },
    getProof: { hash: newestConfirmed },
    getReceipt: { hash: newestConfirmed },
    getFinality: { hash: async () => ((await hasBlocks()) ? "latest" : null) },
    getAccountProof: { address: async (chain) => ((await hasBlocks()) ? someAccount(chain) : null) },
    getStatement: { address: async (chain) => ((await hasBlocks()) ? someAccount(chain) : null) },
    getBlock: { hash: async () => (await newestBlock()).hash },
    getAccount: { address: someAccount },
    listAccountTransactions: { address: someAccount },
};

const SIGNED_HERE =
    "The node signed this example for dev0, with its next nonce: it holds the keys of its dev chain. For these " +
    "accounts you may also leave `nonce`, `gasPrice` and `signature` out.";
const NO_KEYS =
    "The example is refused here: it was signed for a dev chain. This node holds no keys, so it cannot sign one for " +
    "you. Fill in a transaction that you signed, for example with `cairn sign`. On a dev chain (`cairn dev`) the " +
    "node signs the example, and it works.";
const NO_TRANSACTION =
    "No transaction is in the newest blocks of this chain, so the example names one that does not exist, and the " +
    "answer is 404. Send one with POST /tx first.";
const NOT_SIGNED =
    "This chain has no block but the first one, which nobody signs, so the answer is 404 `NOT_SIGNED_YET`. Send a " +
    "transaction with POST /tx first.";
const OF_TRANSACTIONS = ["getTransaction", "getProof", "getReceipt"];
const NOT_DEV = "Only dev chains (`cairn dev`) have this. On this chain the answer is 404 `NOT_A_DEV_CHAIN`.";
const NOT_NETWORK = "Only networks have validators. On this chain the answer is 404.";
const NOT_ADMIN =
    "The example is refused: an update must be signed by administrators of this network. `cairn validators` makes " +
    "and signs one.";

/**
 * What to know before trying the operation on this chain: why its example cannot work here, or why it can. Null if
 * nothing.
 * @param {Chain} chain
 * @param {string} id
 * @param {string} tag
 * @param {boolean} isFresh Whether there was something on this chain to try it with.
 * @returns {{ text: string, works?: boolean } | null}
 */
export function remarkOn({ dev, isNetwork }, id, tag, isFresh) {
    if (tag === "dev" && !dev.length) return { text: NOT_DEV };
    if (tag === "validators" && !isNetwork) return { text: NOT_NETWORK };
    if (id === "updateValidators") return { text: NOT_ADMIN };
    if (id.startsWith("submit")) return isFresh ? { text: SIGNED_HERE, works: true } : { text: NO_KEYS };
    if (isFresh) return null;
    if (OF_TRANSACTIONS.includes(id)) return { text: NO_TRANSACTION };
    return id in FRESH && tag === "proofs" ? { text: NOT_SIGNED } : null;
}
