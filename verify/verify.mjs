// @ts-nocheck: it has no types of its own; those of its report are where it is used.
// Checks proofs of a Cairn chain with its genesis.json alone: no node, no network, no dependency. docs/formats.md has
// the formats and the rules. Runs in Node.js 20 or newer, and in browsers, where WebCrypto needs https or localhost.
//     node verify.mjs GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]      exit 0 with a report, 1 if it is not proven
//     await checkFile(genesisBytes, fileText, { at, witness })             the report; throws NotProven
// Bytes are hexadecimal text without 0x everywhere below, so that === compares and + joins them. Integers are BigInts.

export class NotProven extends Error {}
function need(holds, reason) {
    if (!holds) throw new NotProven(reason);
}

// Bytes and hashes.
const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const ascii = (text) => hexOf(new TextEncoder().encode(text));
const integer = (hex) => BigInt(`0x${hex || "0"}`);
const fixed = (number, size) => number.toString(16).padStart(2 * size, "0");
const sha256 = async (hex) => hexOf(new Uint8Array(await crypto.subtle.digest("SHA-256", bytesOf(hex))));
const turned = (lane, bits) => (lane << bits) | (lane >> (64n - bits)); // Arrays of 64 bits cut off the rest.
/** Keccak-256 as Ethereum has it. */
export function keccak256(hex) {
    const data = bytesOf(`${hex}01`.padEnd((Math.floor(hex.length / 272) + 1) * 272, "0"));
    data[data.length - 1] |= 0x80;
    const words = new BigUint64Array(data.buffer); // Little-endian, as all that runs JavaScript today.
    const [lanes, moved, sums] = [25, 25, 5].map((count) => new BigUint64Array(count));
    const beside = (i, x) => moved[i - (i % 5) + ((i + x) % 5)];
    for (let at = 0; at < words.length; at += 17) {
        for (let i = 0; i < 17; i += 1) lanes[i] ^= words[at + i];
        for (let round = 0, bits = 1; round < 24; round += 1) {
            sums.fill(0n);
            for (let i = 0; i < 25; i += 1) sums[i % 5] ^= lanes[i];
            for (let i = 0; i < 25; i += 1) lanes[i] ^= sums[(i + 4) % 5] ^ turned(sums[(i + 1) % 5], 1n);
            moved[0] = lanes[0];
            for (let [x, y, t] = [1, 0, 1]; t < 25; [x, y, t] = [y, (2 * x + 3 * y) % 5, t + 1]) {
                moved[y + 5 * ((2 * x + 3 * y) % 5)] = turned(lanes[x + 5 * y], BigInt(((t * (t + 1)) / 2) % 64));
            }
            for (let i = 0; i < 25; i += 1) lanes[i] = moved[i] ^ (~beside(i, 1) & beside(i, 2));
            for (let i = 0; i < 7; i += 1, bits = (bits << 1) ^ (bits & 0x80 ? 0x171 : 0)) {
                if (bits & 1) lanes[0] ^= 1n << BigInt(2 ** i - 1);
            }
        }
    }
    return hexOf(new Uint8Array(lanes.buffer, 0, 32));
}

// Signatures: Ed25519 (RFC 8032) by WebCrypto, and whose one of secp256k1 is.
async function isSigned(key, message, signature) {
    const imported = await crypto.subtle.importKey("raw", bytesOf(key), "Ed25519", false, ["verify"]).catch(() => null);
    return imported !== null && crypto.subtle.verify("Ed25519", imported, bytesOf(signature), bytesOf(message));
}
const P = 2n ** 256n - 2n ** 32n - 977n;
const N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const GX = 0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n;
const G = [GX, 0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8n, 1n];
const modulo = (value, modulus) => ((value % modulus) + modulus) % modulus;
const raised = (base, exponent, prime) =>
    exponent ? (raised((base * base) % prime, exponent >> 1n, prime) * (exponent & 1n ? base : 1n)) % prime : 1n;
/** Adds points x : y : z, by a rule that has no exceptions (Renes, Costello and Batina 2015, algorithm 7). */
function add([x, y, z], [x2, y2, z2]) {
    const [xy, yz, xz, xx] = [x * y2 + x2 * y, y * z2 + y2 * z, x * z2 + x2 * z, 3n * x * x2];
    const [low, high] = [y * y2 - 21n * z * z2, y * y2 + 21n * z * z2];
    return [(xy * low - 21n * yz * xz) % P, (21n * xz * xx + low * high) % P, (high * yz + xx * xy) % P];
}
/** The address whose key signed a digest. */
function signerOf(digest, r, s, parity) {
    const [cube, inverse] = [(r ** 3n + 7n) % P, raised(r, N - 2n, N)];
    const y = raised(cube, (P + 1n) / 4n, P);
    const point = [r, (y & 1n) === parity ? y : P - y, 1n];
    const [a, b] = [(s * inverse) % N, modulo(-integer(digest) * inverse, N)]; // The key is a · point + b · G.
    const addends = [[0n, 1n, 0n], point, G, add(point, G)];
    const addend = (bit) => addends[Number(((a >> bit) & 1n) + 2n * ((b >> bit) & 1n))];
    let [sum] = addends;
    for (let bit = 255n; bit >= 0n; bit -= 1n) sum = add(add(sum, sum), addend(bit));
    const isValid = r > 0n && r < N && s > 0n && s <= N / 2n && (y * y) % P === cube && sum[2] !== 0n;
    need(isValid && (parity === 0n || parity === 1n), "the signature of a payment is not valid for this chain");
    const share = raised(modulo(sum[2], P), P - 2n, P);
    return keccak256(fixed(modulo(sum[0] * share, P), 32) + fixed(modulo(sum[1] * share, P), 32)).slice(24);
}

// Merkle trees (RFC 6962).
const EMPTY_ROOT = "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"; // As Ethereum has it.
const leafHash = (data) => sha256(`00${data}`);
const nodeHash = (left, right) => sha256(`01${left}${right}`);
export async function merkleRoot(leaves) {
    if (leaves.length < 2) return leaves.length ? leafHash(leaves[0]) : EMPTY_ROOT;
    const half = 2 ** (31 - Math.clz32(leaves.length - 1));
    return nodeHash(...(await Promise.all([leaves.slice(0, half), leaves.slice(half)].map(merkleRoot))));
}
/** The roots above a node, of the leaves up to it and of all. The path has its siblings, lowest first. */
async function climb(what, index, size, old, now, path) {
    let used = 0;
    for (let last = size - 1n; last > 0n; index >>= 1n, last >>= 1n) {
        if (index % 2n === 0n && index === last) continue; // It has no sibling: it moves up.
        if (index % 2n) [old, now] = [await nodeHash(path[used], old), await nodeHash(path[used], now)];
        else now = await nodeHash(now, path[used]);
        used += 1;
    }
    need(used === path.length, `${what}: the path is too short or too long`);
    return [old, now];
}
async function checkIncluded(what, data, index, size, path, root) {
    need(index < size, `${what}: the tree has no such place`);
    const [, top] = await climb(what, index, size, "", await leafHash(data), path);
    need(top === root, `${what}: the path does not lead to the root in the block`);
}

// What files have, by rules narrower than JSON's, so that all verifiers read the same. A number is so many bytes.
const [INT, HEX, PATH] = ["integer", "bytes", [32]];
const VOTE = { validator: INT, seconds: INT, nanos: INT, signature: 64 };
const SIGNED = { header: [HEX], round: INT, parts: { total: INT, hash: HEX }, signatures: [VOTE] };
const CERTIFICATE = { steps: [{ signed: SIGNED, validators: [{ publicKey: 32, power: INT }] }], signed: SIGNED };
const BLOCK = { header: HEX, history: PATH };
const PAYMENT = { transaction: HEX, index: INT, path: PATH };
const CHANGE = { block: BLOCK, leaf: 108, index: INT, count: INT, path: PATH };
const STATE = { leaf: 88, number: INT, size: INT, path: PATH };
const DESCENDANT = { ...BLOCK, witnesses: [{ publicKey: 32, signature: 64 }] };
const ALL = { certificate: { header: HEX }, descendants: [DESCENDANT] };
const OPTIONAL = ["descendants", "state", "change", "next"];
const ENTRY = { ...CHANGE, payments: [PAYMENT] };
const STATEMENT = { address: 20, from: INT, to: INT, changes: [ENTRY], state: STATE, next: CHANGE };
/** The value, without what nobody asks for. */
function read(value, shape, name = "file") {
    const isHex = typeof value === "string" && /^0x([0-9a-f]{2})*$/.test(value);
    if (isHex && (shape === HEX || shape === value.length / 2 - 1)) return value.slice(2);
    if (shape === INT && Number.isSafeInteger(value)) return BigInt(value);
    if (Array.isArray(shape) && Array.isArray(value)) return value.map((item) => read(item, shape[0], name));
    const isObject = [shape, value].every((each) => typeof each === "object" && !Array.isArray(each));
    need(isObject, `${name} is missing, or is not what it has to be`);
    const keys = Object.keys(shape).filter((key) => Object.hasOwn(value, key) || !OPTIONAL.includes(key));
    return Object.fromEntries(keys.map((key) => [key, read(value[key], shape[key], key)]));
}
function readJson(text) {
    let bare = text.replace(/"[ !#-[\]-~]*"/g, "");
    need(/^[\d{}[\]:, \t\n\r]*$/.test(bare), "the file has a sign that no proof has");
    for (let depth = 0; depth < 32; depth += 1) bare = bare.replace(/[[{][^[\]{}]*[\]}]/g, ""); // The innermost ones.
    need(!/[[{]/.test(bare), "the file is nested more than 32 deep");
    return JSON.parse(text);
}
function rlp(item) {
    const [kind, body] = typeof item === "string" ? [0x80, item] : [0xc0, item.map(rlp).join("")];
    const size = body.length / 2;
    if (kind === 0x80 && size === 1 && body < "80") return body;
    const digits = fixed(size, size > 255 ? 2 : 1);
    return (size < 56 ? fixed(kind + size, 1) : fixed(kind + 55 + digits.length / 2, 1) + digits) + body;
}
/** The items of a list: strings, and empty lists. Encoded again they must be the same, so there is one way to write. */
function rlpList(raw) {
    const [items, number] = [[], (from, to) => Number.parseInt(raw.slice(from, to), 16)];
    let at = 2 + 2 * Math.max(0, number(0, 2) - 0xf7);
    while (at < raw.length) {
        const first = number(at, at + 2);
        const start = first < 0x80 ? at : at + 2 + (first < 0xc0 ? 2 * Math.max(0, first - 0xb7) : 0);
        const size = first < 0x80 ? 1 : first < 0xb8 ? first - 0x80 : first < 0xc0 ? number(at + 2, start) : 0;
        at = start + 2 * size;
        items.push(first < 0xc0 ? raw.slice(start, at) : []);
    }
    need(rlp(items) === raw, "a header or a payment is not canonical RLP");
    return items;
}
/** An item of so many bytes; where the size is negative, an integer of at most so many. */
function field(item, size) {
    const fits = size < 0 ? item.length <= -2 * size && !item.startsWith?.("00") : item.length === 2 * size;
    need(typeof item === "string" && fits, "a header or a payment does not have the fields of one");
    return size < 0 ? integer(item) : item;
}
const varint = (number) => (number > 127n ? fixed((number & 127n) | 128n, 1) + varint(number >> 7n) : fixed(number, 1));
const chunk = (tag, body) => tag + varint(BigInt(body.length / 2)) + body;
const unlessZero = (tag, number) => (number ? tag + varint(number) : "");
const littleEndian = (number) => hexOf(bytesOf(fixed(number, 8)).reverse());

// Who signs: the genesis, the validators, the signed head.
const DEV_SIGNER = "61e3d5fd875f007dd386d790641c8c3fb160ba020970ca733f8857a89689445f"; // Everybody has its other half.
const isDev = (validators) => validators.some(({ key }) => key === DEV_SIGNER);
/** The validators in CometBFT's order. */
async function ranked(rows) {
    const ranks = new Map(await Promise.all(rows.map(async ({ key }) => [key, (await sha256(key)).slice(0, 40)])));
    return [...rows].sort((a, b) => Number(b.power - a.power) || (ranks.get(a.key) < ranks.get(b.key) ? -1 : 1));
}
async function setHash(validators) {
    const [{ size }, order] = [new Set(validators.map(({ key }) => key)), await ranked(validators)];
    const isSet = size > 0 && size === validators.length && order.every((each, i) => each === validators[i]);
    need(isSet, "there is no validator, or one twice, or they are not in CometBFT's order");
    need(validators.every((each) => each.power > 0n && each.power < 2n ** 53n), "a power is not between 1 and 2^53-1");
    return merkleRoot(validators.map(({ key, power }) => `0a220a20${key}10${varint(power)}`));
}
export async function readGenesis(bytes) {
    // Integers become strings with a sign of their own first: a chain id may be above 2^53.
    const quoted = (token) => (token.startsWith('"') ? token : `"#${token}"`);
    const unquoted = (text) => BigInt(/^#(\d+)$/.exec(text)[1]);
    const fields = JSON.parse(new TextDecoder().decode(bytes).replace(/"(?:[^"\\]|\\.)*"|\d+/g, quoted));
    need(Object.hasOwn(fields, "signer") !== Object.hasOwn(fields, "validators"), "genesis does not say who signs");
    const rows = (fields.validators ?? [{ publicKey: fields.signer, power: "#1" }]).map(({ publicKey, power }) => {
        need(/^[A-Za-z0-9+/]{43}=$/.test(publicKey), "a key in genesis is not 32 bytes in base64");
        return { key: hexOf(Uint8Array.from(atob(publicKey), (sign) => sign.charCodeAt(0))), power: unquoted(power) };
    });
    const [digest, chainId, validators] = [keccak256(hexOf(bytes)), unquoted(fields.chainId), await ranked(rows)];
    need(chainId > 0n && chainId < 2n ** 63n - 36n, "the chain id in genesis is out of range");
    const engineId = ascii(`cairn-${chainId}-${digest.slice(0, 24)}`);
    return { digest, chainId, engineId, validators, everybodyHasTheKey: isDev(validators) };
}
async function checkSigned({ header, round, parts, signatures }, validators, engineId, above) {
    need(header[1] === chunk("0a", engineId), "signed for another chain, or for another genesis");
    need(header[7] === `0a20${await setHash(validators)}`, "signed by other validators");
    const height = bytesOf(header[2].slice(2, 20)).reduceRight((sum, byte) => (sum << 7n) | BigInt(byte & 127), 0n);
    const isHeader = header.length === 14 && header[2] === `08${varint(height)}`;
    need(isHeader && height > above, "a signed header is not one, or not above the one before it");
    const partsId = chunk("12", unlessZero("08", parts.total) + (parts.hash && chunk("12", parts.hash)));
    const blockId = chunk("22", `0a20${await merkleRoot(header)}${partsId}`);
    const vote = `080211${littleEndian(height)}${round ? `19${littleEndian(round)}` : ""}${blockId}`;
    const by = [];
    for (const { validator: place, seconds, nanos, signature } of signatures) {
        const isNext = place > (by.at(-1)?.place ?? -1n) && place < validators.length;
        need(isNext, "a signature is there twice, is not in order, or is nobody's");
        by.push({ place, ...validators[Number(place)] });
        const time = chunk("2a", unlessZero("08", seconds) + unlessZero("10", nanos));
        const isRight = await isSigned(by.at(-1).key, chunk("", vote + time + chunk("32", engineId)), signature);
        need(isRight, `the signature of validator ${place} is wrong`);
    }
    const [power, of] = [by, validators].map((some) => some.reduce((sum, each) => sum + each.power, 0n));
    need(3n * power > 2n * of, `only ${power} of ${of} of the voting power signed`);
    return { header, height, report: { by: by.map(({ key }) => key), validators: validators.length, power, of } };
}
/** Each set of validators signs the next one, from genesis on, and the last signs the head. */
async function checkSignatures({ steps, signed }, head, genesis) {
    let [validators, above, everybodyHasTheKey] = [genesis.validators, 0n, genesis.everybodyHasTheKey];
    for (const step of steps) {
        const change = await checkSigned(step.signed, validators, genesis.engineId, above);
        [validators, above] = [step.validators.map(({ publicKey: key, power }) => ({ key, power })), change.height];
        need(change.header[8] === `0a20${await setHash(validators)}`, "the next validators are not the signed ones");
        need(change.header[7] !== change.header[8], "a step changes nothing");
        everybodyHasTheKey ||= isDev(validators);
    }
    const { header, report } = await checkSigned(signed, validators, genesis.engineId, above);
    need(header[10] === `0a20${head.hash}`, "the validators signed another block");
    return { ...report, steps: steps.length, everybodyHasTheKey };
}

// What is proven: blocks, payments, accounts. A proof has the fields of the genesis and of the file, and its head.
const FIRST = ["previousHash", "uncles", "proposer", "stateRoot", "transactionsRoot", "receiptsRoot", "bloom"];
const LAST = ["height", "gasLimit", "gasUsed", "time", "extra", "mixHash", "nonce", "baseFeePerGas"];
const SIZES = [32, 32, 20, 32, 32, 32, 256, 0, -8, -8, -8, -8, 18, 32, 8, -32];
function readHeader(header, { chainId }) {
    const [items, names] = [rlpList(header), [...FIRST, "difficulty", ...LAST]];
    need(items.length === names.length, "a header does not have the fields of one");
    const block = Object.fromEntries(items.map((item, i) => [names[i], field(item, SIZES[i])]));
    const isOurs = block.extra.startsWith(`${ascii("cairn")}03${fixed(chainId, 8)}`);
    const isPlain = block.uncles === keccak256("c0") && /^0+$/.test(block.bloom + block.nonce);
    need(isOurs && isPlain, "a header of another chain or format");
    return { ...block, header, hash: keccak256(header), transactionCount: integer(block.extra.slice(28)) };
}
/** The block, which must be the later one, or be in its history. */
async function checkAncestor(block, path, later) {
    const isSame = block.header === later.header && path.length === 0;
    if (!isSame) await checkIncluded("block", block.hash, block.height, later.height, path, later.mixHash);
    return block;
}
const checkBlock = (proof, { header, history: path }) => checkAncestor(readHeader(header, proof), path, proof.head);
async function checkPayment({ chainId }, { transaction: raw, index, path }, block) {
    const hash = keccak256(raw);
    await checkIncluded("payment", hash, index, block.transactionCount, path, block.transactionsRoot);
    const type = raw < "03" ? Number.parseInt(raw.slice(0, 2), 16) : 0;
    const fields = rlpList(type ? raw.slice(2) : raw);
    need(fields.length === [9, 11, 12][type], "a payment does not have the fields of one");
    const [body, [v, r, s]] = [fields.slice(0, -3), fields.slice(-3).map((item) => field(item, -32))];
    const id = fixed(chainId, 8).replace(/^(00)+/, "");
    const digest = keccak256(type ? fixed(type, 1) + rlp(body) : rlp([...body, id, "", ""]));
    const isOurs = type === 0 || (body.shift() === id && Array.isArray(body.pop()));
    const [nonce, maxTip, maxFee] = [field(body[0], -8), field(body[1], -32), field(body[type || 1], -32)];
    const [gas, to, value, data] = body.slice(-4).map((item, i) => field(item, [-8, 20, -32, item.length / 2][i]));
    need(isOurs && data.length <= 512 && maxTip <= maxFee, "a payment that no block of this chain can hold");
    const tipped = block.baseFeePerGas + maxTip;
    const gasPrice = type === 2 && tipped < maxFee ? tipped : maxFee;
    const fee = gasPrice * bytesOf(data).reduce((sum, byte) => sum + (byte ? 16n : 4n), 21000n);
    const from = signerOf(digest, r, s, type ? v : v - 2n * chainId - 35n);
    return { from, to, value, data, fee, nonce, hash, index, type, gas, gasPrice, maxFee, maxTip };
}
/** What an account holds is balance 32 ‖ nonce 8 in all leaves, and so below. */
const holding = (held) => ({ balance: integer(held.slice(0, 64)), nonce: integer(held.slice(64)) });
/** What the account held before and after a block, and when it was touched before that: -1 if never. */
async function checkChange(proof, { block: given, leaf, index, count, path }) {
    const block = await checkBlock(proof, given);
    await checkIncluded("change", leaf, index, count, path, block.receiptsRoot);
    need(leaf.slice(0, 40) === proof.address, "the proof is about another account");
    const touched = leaf.slice(40, 56) === "f".repeat(16) ? -1n : integer(leaf.slice(40, 56));
    return { block, touched, held: leaf.slice(56, 136), after: leaf.slice(136) };
}
/** The account after that height: by its next change, or by the state at the head. */
async function checkEnd(proof, change, height) {
    const [{ state, address, head }, end] = [proof, change && (await checkChange(proof, change))];
    need(!change !== !state, "there must be one of a change and the state");
    need(!change || end.block.height > height, "the change is not after the height");
    if (change) return end;
    await checkIncluded("account", state.leaf, state.number, state.size, state.path, head.stateRoot);
    const [owner, held, touched, next] = /^(.{40})(.{80})(.{16})(.{40})$/.exec(state.leaf).slice(1);
    const isGap = owner < next ? owner < address && address < next : owner < address || address < next;
    need(state.number > 0n && (owner === address || isGap), "the proof is about another account");
    return owner === address ? { touched: integer(touched), held } : { touched: -1n, held: "0".repeat(80) };
}
/** A change of the account, with all payments of the block that name it. */
async function checkEntry(proof, given, { block, held, after }) {
    const [{ address }, payments, end] = [proof, [], holding(after)];
    let { balance, nonce } = holding(held);
    for (const part of given) {
        const payment = await checkPayment(proof, part, block);
        const [isSent, isReceived] = [payment.from === address, payment.to === address];
        need(part.index > (payments.at(-1)?.index ?? -1n), "the payments are not in the order of the block");
        need(isSent || isReceived, "a payment of others is in the statement");
        need(!isSent || payment.nonce === nonce, "a payment that the account sent is left out");
        if (isSent) [balance, nonce] = [balance - payment.value - payment.fee, nonce + 1n];
        if (isReceived) balance += payment.value;
        payments.push(payment);
    }
    const [rest, source] = [end.balance - balance, block.transactionCount ? "feesOfTheBlock" : "setNotPaid"];
    const isExplained = rest === 0n || block.transactionCount === 0n || (block.proposer === address && rest > 0n);
    need(nonce === end.nonce && isExplained, "the payments do not add up to the change of the account");
    return { height: block.height, time: block.time, ...end, payments, ...(rest && { [source]: rest }) };
}
async function statement(proof) {
    const { address, from, to, changes, head } = proof;
    need(from <= to && to <= head.height, "from, to and the signed block are not in order");
    const [entries, seen] = [[], []];
    const needNext = ({ touched, held }, last = seen.at(-1)) =>
        need(last ? touched === last.block.height && held === last.after : touched < from, "a change is left out");
    for (const part of changes) {
        const change = await checkChange(proof, part);
        needNext(change);
        const { height } = change.block;
        need(height > change.touched && height >= from && height <= to, "a change is not within the statement");
        entries.push(await checkEntry(proof, part.payments, change));
        seen.push(change);
    }
    const end = await checkEnd(proof, proof.next, to);
    needNext(end);
    return { address, from, to, opening: holding((seen[0] ?? end).held), closing: holding(end.held), entries };
}
const finality = async (proof) => ({ block: await checkBlock(proof, proof.block) });
async function receipt(proof) {
    const block = await checkBlock(proof, proof.block);
    return { block, payment: await checkPayment(proof, proof.payment, block) };
}
async function account(proof) {
    const { address, height, change, head } = proof;
    const { touched, held } = await checkEnd(proof, change, height);
    need(height <= head.height && touched <= height, "the account was touched after that height");
    return { address, height, exists: touched >= 0n, ...holding(held) };
}
/** The newer history begins with the older one. */
async function history(proof) {
    const [first, second] = [readHeader(proof.first, proof), await checkBlock(proof, proof.second)];
    const [path, level] = [proof.consistency, BigInt(/0*$/.exec(first.height.toString(2))[0].length)];
    await checkIncluded("block", first.hash, first.height, second.height, proof.inclusion, second.mixHash);
    const isEmpty = path.length === 0 && first.mixHash === EMPTY_ROOT;
    need(first.height > 0n || isEmpty, "history: nothing is before genesis, and nothing leads from there");
    if (first.height === 0n) return { first, second };
    // Where the older tree is a whole one, it is a node of the newer one, and the path leaves it out.
    const [start, ...rest] = first.height === 1n << level ? [first.mixHash, ...path] : path;
    const place = [(first.height >> level) - 1n, ((second.height - 1n) >> level) + 1n];
    const [old, now] = await climb("history", ...place, start, start, rest);
    need(old === first.mixHash && now === second.mixHash, "history: the newer one begins otherwise");
    return { first, second };
}
const KINDS = new Map([
    ["cairn-finality-1", [finality, { block: BLOCK }]],
    ["cairn-receipt-1", [receipt, { block: BLOCK, payment: PAYMENT }]],
    ["cairn-account-1", [account, { address: 20, height: INT, state: STATE, change: CHANGE }]],
    ["cairn-statement-1", [statement, STATEMENT]],
    ["cairn-history-1", [history, { first: HEX, second: BLOCK, inclusion: PATH, consistency: PATH }]],
]);
/** Finds the trusted block, and the signature of the witness, among the head and the blocks after it. */
async function checkDescendants({ head, descendants = [], ...genesis }, at, witness) {
    let [isFound, isWitnessed] = [at === undefined || at === `${head.height}:0x${head.hash}`, witness === undefined];
    for (const { header, history: path, witnesses } of descendants) {
        const later = readHeader(header, genesis);
        await checkAncestor(head, path, later);
        isFound ||= at === `${later.height}:0x${later.hash}`;
        const message = `${ascii("cairn witness 1")}00${genesis.digest}${fixed(later.height, 8)}${later.hash}`;
        for (const { publicKey: key, signature } of witnesses) {
            isWitnessed ||= `0x${key}` === witness && (await isSigned(key, message, signature));
        }
    }
    need(isFound, "the trusted block is not in the file");
    need(isWitnessed, "the witness did not sign a block of the file");
}
/** The genesis is that of `readGenesis`, or the bytes of its file. With a trusted block, signatures do not matter. */
export async function checkFile(given, fileText, { at, witness } = {}) {
    need(globalThis.crypto?.subtle, "browsers check signatures only on pages from https or localhost");
    try {
        const [genesis, json] = [given instanceof Uint8Array ? await readGenesis(given) : given, readJson(fileText)];
        need(KINDS.has(json.format), "the file is of no known format");
        const [check, shape] = KINDS.get(json.format);
        const file = read(json, { ...ALL, ...shape });
        const head = readHeader(file.certificate.header, genesis);
        const proof = { ...genesis, ...file, head };
        await checkDescendants(proof, at, witness);
        const certificate = at === undefined ? read(json.certificate, CERTIFICATE) : null;
        const signed = certificate ? await checkSignatures(certificate, head, genesis) : { by: "not looked at: --at" };
        return { kind: check.name, ...(await check(proof)), head, signed };
    } catch (failure) {
        throw failure instanceof NotProven ? failure : new NotProven(`it cannot be read: ${failure}`);
    }
}

/** For people: bytes begin with 0x, and of a block there is what names it. */
function shown(_, value) {
    if (typeof value === "string" && /^[0-9a-f]*$/.test(value)) return `0x${value}`;
    if (value?.header) return { height: value.height, time: value.time, hash: value.hash };
    return typeof value === "bigint" ? value.toString() : value;
}
const { readFileSync, realpathSync } = globalThis.process?.versions?.node ? await import("node:fs") : {};
if (realpathSync && process.argv[1] && import.meta.url === new URL(realpathSync(process.argv[1]), "file:").href) {
    process.removeAllListeners("warning"); // Node.js 20 calls Ed25519 in WebCrypto experimental.
    process.stdout.on("error", () => {}); // Who reads may stop early.
    const { parseArgs } = await import("node:util");
    try {
        const options = { at: { type: "string" }, witness: { type: "string" } };
        const { values, positionals } = parseArgs({ allowPositionals: true, options });
        need(positionals.length === 2, "usage: verify.mjs GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]");
        const [genesis, file] = positionals.map((path) => readFileSync(path));
        const report = JSON.stringify(await checkFile(genesis, file.toString("latin1"), values), shown, 2);
        console.log(report.replace(/"(\d+)"/g, "$1")); // Integers of any size.
    } catch (failure) {
        console.log(`NOT PROVEN: ${failure.message}`);
        process.exitCode = 1;
    }
}
