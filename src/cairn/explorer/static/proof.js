// What a node says of a block, checked here: the transactions root, the header's hash, a proof of inclusion and of
// what it is that the block includes.
// docs/formats.md has the rules; this page follows them step by step so that it can show each one.

import { joined, toBytes, toHex } from "./bytes.js";
import { keccak256 } from "./keccak.js";
import { dataOf, decodedText, intrinsicGas } from "./references.js";
import { recoverAddress } from "./secp256k1.js";
import { sha256 } from "./sha256.js";

/** @import { Confirmed, Header, Transfer, Proof } from "./api.js" */
/** @typedef {{ side: "leaf" | "left" | "right", sibling: string | null, result: string }} Step */
/** @typedef {"transaction" | "sender" | "root" | "header" | "shown"} Claim */
/** @typedef {{ name: Claim, computed: string, claimed: string, holds: boolean }} Check */

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);
const PAIRS_A_TURN = 512;

const EMPTY_ROOT = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421";
// What Ethereum's headers have and no block here uses.
const NO_UNCLES = toBytes("0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347");
const [EMPTY_BLOOM, NO_MIX, NO_NONCE] = [new Uint8Array(256), new Uint8Array(32), new Uint8Array(8)];
/** "cairn" and the version of the header's format. */
const FORMAT = toBytes("0x636169726e02");

/** @param {string} txHash */
const leafHash = (txHash) => sha256(joined(LEAF, toBytes(txHash)));
/** @type {(left: Uint8Array, right: Uint8Array) => Uint8Array} */
const nodeHash = (left, right) => sha256(joined(NODE, left, right));

// RLP, as far as headers and transfers need it: integers, strings, one list.

/** @param {unknown} value */
function integerBytes(value) {
    if (typeof value !== "bigint" || value < 0n) throw new TypeError(`${value} is no integer from 0`);
    const digits = value.toString(16);
    return value === 0n ? new Uint8Array() : toBytes(`0x${digits.length % 2 ? "0" : ""}${digits}`);
}

/**
 * @param {number} size
 * @param {number} short
 */
function lengthPrefix(size, short) {
    if (size < 56) return Uint8Array.of(short + size);
    const bytes = integerBytes(BigInt(size));
    return joined(Uint8Array.of(short + 55 + bytes.length), bytes);
}

/** @param {Uint8Array} bytes */
function encodeString(bytes) {
    return bytes.length === 1 && bytes[0] < 0x80 ? bytes : joined(lengthPrefix(bytes.length, 0x80), bytes);
}

/**
 * Of strings, and of lists that are encoded already.
 * @param {Uint8Array[]} items
 */
function encodeList(items) {
    const body = joined(...items.map((item) => (item === EMPTY_LIST ? item : encodeString(item))));
    return joined(lengthPrefix(body.length, 0xc0), body);
}

const EMPTY_LIST = Uint8Array.of(0xc0);

/**
 * A number as the header's extra data has it, in so many bytes.
 * @param {bigint} number
 * @param {number} size
 */
function paddedBytes(number, size) {
    const bytes = integerBytes(number);
    return joined(new Uint8Array(size - bytes.length), bytes);
}

/**
 * The hash that a block with this header has.
 * @param {Header} header
 */
export function headerHash(header) {
    const fields = [
        toBytes(header.previousHash),
        NO_UNCLES,
        toBytes(header.proposer),
        toBytes(header.stateRoot),
        toBytes(header.transactionsRoot),
        toBytes(header.transactionsRoot), // The receipts follow from the transactions.
        EMPTY_BLOOM,
        integerBytes(0n), // No difficulty.
        integerBytes(header.blockHeight),
        integerBytes(header.gasLimit),
        integerBytes(header.gasUsed),
        integerBytes(header.timestamp),
        joined(FORMAT, paddedBytes(header.chainId, 8), paddedBytes(header.transactionCount, 4)),
        NO_MIX,
        NO_NONCE,
        integerBytes(header.baseFeePerGas),
    ];
    return toHex(keccak256(encodeList(fields)));
}

/**
 * What a transfer of its type says of its price. Fields of another type are not signed, so it must not have them.
 * @param {Transfer} transfer
 */
function pricesOf({ type = 0n, gasPrice, maxFeePerGas, maxPriorityFeePerGas }) {
    if (![0n, 1n, 2n].includes(type)) throw new TypeError(`${type} is no type of a transfer`);
    const caps = [maxPriorityFeePerGas, maxFeePerGas];
    const [own, others] = type === 2n ? [caps, [gasPrice]] : [[gasPrice], caps];
    if (others.some((price) => price !== undefined)) throw new TypeError("it names a price of another type");
    return /** @type {bigint[]} */ (own); // One that it lacks is refused when it is encoded.
}

/**
 * What is signed of a transfer, and what is hashed with its signature `v`, `r`, `s`: legacy (EIP-155), or of its type.
 * @param {Transfer} transfer
 * @param {bigint} chainId
 * @param {bigint} parity
 * @param {Uint8Array} r
 * @param {Uint8Array} s
 */
function transferBytes(transfer, chainId, parity, r, s) {
    const { type = 0n, nonce, gas, to, value } = transfer;
    const prices = pricesOf(transfer).map(integerBytes);
    const none = new Uint8Array();
    const payment = [integerBytes(gas), toBytes(to), integerBytes(value), dataOf(transfer)];
    if (type === 0n) {
        const fields = [integerBytes(nonce), ...prices, ...payment];
        const v = integerBytes(35n + 2n * chainId + parity);
        return [encodeList([...fields, integerBytes(chainId), none, none]), encodeList([...fields, v, r, s])];
    }
    const fields = [integerBytes(chainId), integerBytes(nonce), ...prices, ...payment, EMPTY_LIST];
    /** @param {Uint8Array[]} items */
    const typed = (items) => joined(integerBytes(type), encodeList(items));
    return [typed(fields), typed([...fields, integerBytes(parity), r, s])];
}

/**
 * The hash of a transfer with its signature, and the account whose key made it.
 * @param {Proof["transaction"]} transfer
 * @param {bigint} chainId
 */
export function signedTransfer(transfer, chainId) {
    const bytes = toBytes(transfer.signature);
    if (bytes.length !== 65) return { hash: "no hash: a signature has 65 bytes", sender: null };
    const [r, s] = [bytes.slice(0, 32), bytes.slice(32, 64)].map((word) => integerBytes(BigInt(toHex(word))));
    const [signing, signed] = transferBytes(transfer, chainId, BigInt(bytes[64]), r, s);
    return { hash: toHex(keccak256(signed)), sender: recoverAddress(keccak256(signing), bytes) };
}

/**
 * What a transfer pays for a unit of gas in a block with this base fee.
 * @param {Transfer} transfer
 * @param {bigint} baseFee
 */
function paidPrice(transfer, baseFee) {
    const [price, cap] = pricesOf(transfer);
    if (cap === undefined) return price;
    return baseFee + price < cap ? baseFee + price : cap;
}

/**
 * The Merkle root over all hashes. Lets the page breathe in between: a block can hold many thousands.
 * @param {string[]} txHashes
 * @param {() => Promise<void>} breathe
 */
export async function transactionsRoot(txHashes, breathe) {
    if (txHashes.length === 0) return EMPTY_ROOT;
    /** @type {Uint8Array[]} */
    let level = [];
    for (const [index, hash] of txHashes.entries()) {
        level.push(leafHash(hash));
        if (index % PAIRS_A_TURN === PAIRS_A_TURN - 1) await breathe();
    }
    while (level.length > 1) {
        const above = [];
        for (let index = 0; index < level.length; index += 2) {
            above.push(index + 1 < level.length ? nodeHash(level[index], level[index + 1]) : level[index]);
            if (above.length % PAIRS_A_TURN === 0) await breathe();
        }
        level = above;
    }
    return toHex(level[0]);
}

/**
 * Every step from the transaction up to the root. Null when the path does not fit.
 * @param {Pick<Proof, "txHash" | "transactionIndex" | "proof">} path
 * @param {bigint} transactionCount
 */
export function climb({ txHash, transactionIndex, proof }, transactionCount) {
    let [index, last] = [transactionIndex, transactionCount - 1n];
    if (index < 0n || index > last) return null;
    /** @type {Uint8Array} */
    let node = leafHash(txHash);
    /** @type {Step[]} */
    const steps = [{ side: "leaf", sibling: null, result: toHex(node) }];
    const siblings = [...proof];
    for (; last > 0n; index /= 2n, last /= 2n) {
        const isRight = index % 2n === 1n;
        if (!isRight && index === last) continue;
        const sibling = siblings.shift();
        if (sibling === undefined) return null;
        node = isRight ? nodeHash(toBytes(sibling), node) : nodeHash(node, toBytes(sibling));
        steps.push({ side: isRight ? "left" : "right", sibling, result: toHex(node) });
    }
    return siblings.length === 0 ? steps : null;
}

/**
 * A text is told from a number of the same digits.
 * @param {unknown} value
 */
const written = (value) => (typeof value === "bigint" ? value : JSON.stringify(value));

/**
 * What the page shows of the transaction, beside the same as the proof has it.
 * @param {Confirmed} tx
 * @param {Proof} answer
 */
function shownBeside(tx, { transaction, transactionIndex, header }) {
    const { signature, ...signed } = transaction;
    const gasPrice = paidPrice(signed, header.baseFeePerGas);
    const [blockHeight, fee] = [header.blockHeight, intrinsicGas(dataOf(signed)) * gasPrice];
    // What the proof does not have, the page must not show either.
    const absent = { type: undefined, maxFeePerGas: undefined, maxPriorityFeePerGas: undefined, data: undefined };
    // The node may know fewer characters than this browser, and leave the text out; another text is a lie.
    const reference = tx.reference === undefined ? undefined : decodedText(dataOf(signed));
    const claimed = { gasPrice, status: "confirmed", blockHeight, transactionIndex, fee, reference };
    const proven = { ...absent, ...signed, ...claimed };
    const names = /** @type {(keyof typeof proven)[]} */ (Object.keys(proven));
    const wrong = names.find((name) => tx[name] !== proven[name]);
    return wrong === undefined
        ? ["the same", "the same"]
        : [`${wrong}: ${written(proven[wrong])}`, `${wrong}: ${written(tx[wrong])}`];
}

/**
 * Follow the answer of GET /tx/{hash}/proof for the transaction of the hash that the page was asked for; `tx` is what
 * the page shows of it, with the block that is trusted.
 * Gives the steps and, for each claim, what was computed and what had been claimed.
 * @param {Proof} answer
 * @param {string} txHash
 * @param {Confirmed} tx
 */
export function verifyProof(answer, txHash, tx) {
    const { transaction, header } = answer;
    const steps = climb({ ...answer, txHash }, header.transactionCount) ?? [];
    const root = steps.at(-1)?.result ?? "no root: the path does not fit the transaction's place";
    const signed = signedTransfer(transaction, header.chainId);
    const [proven, shown] = shownBeside(tx, answer);
    const sender = signed.sender ?? "nobody: no key can have made the signature";
    /** @type {Omit<Check, "holds">[]} */
    const compared = [
        { name: "transaction", computed: signed.hash, claimed: txHash },
        { name: "sender", computed: sender, claimed: transaction.from },
        { name: "root", computed: root, claimed: header.transactionsRoot },
        { name: "header", computed: headerHash(header), claimed: tx.blockHash },
        { name: "shown", computed: proven, claimed: shown },
    ];
    /** @type {Check[]} */
    const checks = compared.map((check) => ({ ...check, holds: check.computed === check.claimed }));
    const sameNames = answer.txHash === txHash && header.hash === tx.blockHash;
    return { steps, checks, holds: sameNames && checks.every((check) => check.holds) };
}
