// @ts-nocheck: it has no types of its own; those of its report are where it is used.
// Checks proofs of a Cairn chain with its genesis.json alone: no node, no network, no dependency. docs/formats.md has
// the formats and the rules. Runs in Node.js 20 or newer, and in browsers, where WebCrypto needs https or localhost.
//
//     node verify.mjs GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]      exit 0 with a report, 1 if it is not proven
//     await checkFile(genesisBytes, fileText, { at, witness })             the report; throws NotProven
//
// Bytes are hexadecimal text without 0x everywhere below, so that === compares and + joins them. Integers are BigInts.

export class NotProven extends Error {}
const fail = (reason) => {
    throw new NotProven(reason);
};
const need = (holds, reason) => holds || fail(reason);

// Bytes and hashes.
const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const ascii = (text) => hexOf(new TextEncoder().encode(text));
const integer = (hex) => BigInt(`0x${hex || "0"}`);
const fixed = (number, size) => number.toString(16).padStart(2 * size, "0");
const reversed = (hex) => hexOf(bytesOf(hex).reverse());
const sha256 = async (hex) => hexOf(new Uint8Array(await crypto.subtle.digest("SHA-256", bytesOf(hex))));
const CONSTANTS = Array(24).fill(0n);
for (let i = 0, bits = 1; i < 24 * 7; i += 1, bits = (bits << 1) ^ (bits & 0x80 ? 0x171 : 0)) {
    if (bits & 1) CONSTANTS[Math.floor(i / 7)] |= 1n << BigInt(2 ** (i % 7) - 1);
}
const MOVES = [[0, 0, 0n]]; // Where each lane goes, and by how many bits it is turned.
for (let [x, y, t] = [1, 0, 1]; t < 25; [x, y, t] = [y, (2 * x + 3 * y) % 5, t + 1]) {
    MOVES.push([x + 5 * y, y + 5 * ((2 * x + 3 * y) % 5), BigInt(((t * (t + 1)) / 2) % 64)]);
}
/** Keccak-256 as Ethereum has it. */
export function keccak256(hex) {
    const data = new DataView(new ArrayBuffer((Math.floor(hex.length / 272) + 1) * 136));
    new Uint8Array(data.buffer).set(bytesOf(`${hex}01`));
    data.setUint8(data.byteLength - 1, data.getUint8(data.byteLength - 1) | 0x80);
    const [lanes, moved, sums] = [25, 25, 5].map((count) => new BigUint64Array(count));
    for (let at = 0; at < data.byteLength; at += 136) {
        for (let i = 0; i < 17; i += 1) lanes[i] ^= data.getBigUint64(at + 8 * i, true);
        for (const constant of CONSTANTS) {
            sums.fill(0n);
            for (let i = 0; i < 25; i += 1) sums[i % 5] ^= lanes[i];
            const mixes = sums.map((_, x) => sums.at(x - 1) ^ (sums[(x + 1) % 5] << 1n) ^ (sums[(x + 1) % 5] >> 63n));
            for (let i = 0; i < 25; i += 1) lanes[i] ^= mixes[i % 5];
            for (const [from, to, bits] of MOVES) moved[to] = (lanes[from] << bits) | (lanes[from] >> (64n - bits));
            const beside = (i, x) => moved[i - (i % 5) + ((i + x) % 5)];
            for (let i = 0; i < 25; i += 1) lanes[i] = moved[i] ^ (~beside(i, 1) & beside(i, 2));
            lanes[0] ^= constant;
        }
    }
    for (let i = 0; i < 4; i += 1) data.setBigUint64(8 * i, lanes[i], true);
    return hexOf(new Uint8Array(data.buffer, 0, 32));
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
    const cube = (r ** 3n + 7n) % P;
    const y = raised(cube, (P + 1n) / 4n, P);
    need(r > 0n && r < N && s > 0n && s <= N / 2n && (y * y) % P === cube, "the signature of a payment is not valid");
    const [inverse, point] = [raised(r, N - 2n, N), [r, (y & 1n) === parity ? y : P - y, 1n]];
    const [a, b] = [(s * inverse) % N, modulo(-integer(digest) * inverse, N)]; // The key is a · point + b · G.
    const addends = [[0n, 1n, 0n], point, G, add(point, G)];
    let [sum] = addends;
    for (let bit = 255n; bit >= 0n; bit -= 1n) {
        sum = add(add(sum, sum), addends[Number(((a >> bit) & 1n) + 2n * ((b >> bit) & 1n))]);
    }
    need(sum[2] !== 0n, "the signature of a payment is not valid");
    const share = raised(modulo(sum[2], P), P - 2n, P);
    return keccak256(fixed(modulo(sum[0] * share, P), 32) + fixed(modulo(sum[1] * share, P), 32)).slice(24);
}

// Merkle trees (RFC 6962).
const leafHash = (data) => sha256(`00${data}`);
const nodeHash = (left, right) => (right === undefined ? left : sha256(`01${left}${right}`));
export async function merkleRoot(leaves) {
    let level = await Promise.all(leaves.map(leafHash));
    while (level.length > 1) {
        level = await Promise.all(level.flatMap((left, i) => (i % 2 ? [] : [nodeHash(left, level[i + 1])])));
    }
    return level[0] ?? "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421";
}
/** The roots above a node, of the leaves up to it and of all. The path has its siblings, lowest first. */
async function climb(what, index, size, old, now, path) {
    const siblings = [...path];
    for (let last = size - 1n; last > 0n; index >>= 1n, last >>= 1n) {
        if (index % 2n === 0n && index === last) continue; // It has no sibling: it moves up.
        const sibling = siblings.shift() ?? fail(`${what}: the path is too short`);
        if (index % 2n) [old, now] = [await nodeHash(sibling, old), await nodeHash(sibling, now)];
        else now = await nodeHash(now, sibling);
    }
    need(siblings.length === 0, `${what}: the path is too long`);
    return [old, now];
}
async function checkIncluded(what, data, index, size, path, root) {
    need(index < size, `${what}: the tree has no such place`);
    const [, top] = await climb(what, index, size, "", await leafHash(data), path);
    need(top === root, `${what}: the path does not lead to the root in the block`);
}
async function checkAppended(first, second, path) {
    const isEmpty = path.length === 0 && first.mixHash === keccak256("80"); // The root without leaves, as on Ethereum.
    if (first.height === 0n) return need(isEmpty, "history: nothing is before genesis, and nothing leads from there");
    let level = 0n;
    while (((first.height >> level) & 1n) === 0n) level += 1n;
    // Where the older tree is a whole one, it is a node of the newer one, and the path leaves it out.
    const [start, ...rest] = first.height === 1n << level ? [first.mixHash, ...path] : path;
    const place = [(first.height >> level) - 1n, ((second.height - 1n) >> level) + 1n];
    const [old, now] = await climb("history", ...place, start, start, rest);
    return need(old === first.mixHash && now === second.mixHash, "history: the newer one begins otherwise");
}

// Reading JSON, by rules that are narrower than its own, so that all verifiers read the same; RLP; protobuf.
const [INT, HEX, LIST, OBJECT] = ["integer", "bytes", "list", "object"]; // A number stands for so many bytes.
function take(holder, name, kind) {
    const value = Object.hasOwn(holder, name) ? holder[name] : undefined;
    const isPlain = typeof value === "object" && Array.isArray(value) === (kind === LIST);
    const isHex = typeof value === "string" && /^0x([0-9a-f]{2})*$/.test(value);
    const fits = { [INT]: Number.isSafeInteger(value), [HEX]: isHex, [LIST]: isPlain, [OBJECT]: isPlain };
    need(fits[kind] ?? (isHex && value.length === 2 * kind + 2), `${name} is missing, or is not what it has to be`);
    return kind === INT ? BigInt(value) : isHex ? value.slice(2) : value;
}
const takeList = (holder, name, kind) => take(holder, name, LIST).map((item) => take({ [name]: item }, name, kind));
function readJson(text) {
    const bare = text.replace(/"[ !#-[\]-~]*"/g, "");
    need(/^[\d{}[\]:, \t\n\r]*$/.test(bare), "the file has a sign that no proof has");
    let depth = 0;
    for (const sign of bare.replace(/[^{}[\]]/g, "")) {
        depth += "{[".includes(sign) ? 1 : -1;
        need(depth <= 32, "the file is nested more than 32 deep");
    }
    return take({ file: JSON.parse(text) }, "file", OBJECT);
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
    const place = (at) => {
        const first = Number.parseInt(raw.slice(at, at + 2), 16);
        const size = first - (first < 0xc0 ? 0x80 : 0xc0);
        const start = size < 0 ? at : at + 2 + 2 * Math.max(0, size - 55);
        return [start, start + 2 * (size < 0 ? 1 : size < 56 ? size : Number.parseInt(raw.slice(at + 2, start), 16))];
    };
    const items = [];
    for (let [at] = place(0); at < raw.length; [, at] = place(at)) {
        items.push(raw.slice(at, at + 2) < "c0" ? raw.slice(...place(at)) : []);
    }
    need(rlp(items) === raw, "a header or a payment is not canonical RLP");
    return items;
}
function uint(item, size) {
    const isUint = typeof item === "string" && item.length <= 2 * size && !item.startsWith("00");
    return isUint ? integer(item) : fail("not an integer in RLP");
}
const varint = (number) => (number > 127n ? fixed((number & 127n) | 128n, 1) + varint(number >> 7n) : fixed(number, 1));
const chunk = (tag, body) => tag + varint(BigInt(body.length / 2)) + body;
const unlessZero = (tag, number) => (number ? tag + varint(number) : "");

// Who signs: the genesis, the validators, the signed head.
const DEV_SIGNER = "61e3d5fd875f007dd386d790641c8c3fb160ba020970ca733f8857a89689445f";
const isDevKey = ({ key }) => key === DEV_SIGNER; // Everybody has its other half.
const ranked = (keys) => Promise.all(keys.map(async ([key, power]) => ({ key, power, rank: await sha256(key) })));
const byRank = (a, b) => Number(b.power - a.power) || (a.rank.slice(0, 40) < b.rank.slice(0, 40) ? -1 : 1);
function setHash(validators) {
    const { size } = new Set(validators.map(({ key }) => key));
    need(size > 0 && size === validators.length, "there is no validator, or one twice");
    need(validators.every((each) => each.power > 0n && each.power < 2n ** 53n), "a power is not between 1 and 2^53-1");
    need([...validators].sort(byRank).every((each, i) => each === validators[i]), "validators not in CometBFT's order");
    return merkleRoot(validators.map(({ key, power }) => `0a220a20${key}10${varint(power)}`));
}
export async function readGenesis(bytes) {
    // Integers become strings with a sign of their own first: a chain id may be above 2^53.
    const quoted = (token) => (token.startsWith('"') ? token : `"#${token}"`);
    const unquoted = (text) => BigInt(/^#(\d+)$/.exec(text)?.[1] ?? fail("an integer in genesis is not one"));
    const fields = JSON.parse(new TextDecoder().decode(bytes).replace(/"(?:[^"\\]|\\.)*"|\d+/g, quoted));
    need(Object.hasOwn(fields, "signer") !== Object.hasOwn(fields, "validators"), "genesis does not say who signs");
    const keys = (fields.validators ?? [{ publicKey: fields.signer, power: "#1" }]).map(({ publicKey, power }) => {
        need(/^[A-Za-z0-9+/]{43}=$/.test(publicKey), "a key in genesis is not 32 bytes in base64");
        return [hexOf(Uint8Array.from(atob(publicKey), (sign) => sign.charCodeAt(0))), unquoted(power)];
    });
    const [digest, chainId] = [keccak256(hexOf(bytes)), unquoted(fields.chainId)];
    need(chainId > 0n && chainId < 2n ** 63n - 36n, "the chain id in genesis is out of range");
    const engineId = ascii(`cairn-${chainId}-${digest.slice(0, 24)}`);
    const validators = (await ranked(keys)).sort(byRank);
    return { digest, chainId, engineId, validators, everybodyHasTheKey: validators.every(isDevKey) };
}
async function checkSigned(signed, validators, { engineId }, above) {
    const header = takeList(signed, "header", HEX);
    need(header.length === 14, "a signed header does not have 14 fields");
    need(header[1] === chunk("0a", engineId), "signed for another chain, or for another genesis");
    need(header[7] === `0a20${await setHash(validators)}`, "signed by other validators");
    const height = bytesOf(header[2].slice(2, 20)).reduceRight((sum, byte) => (sum << 7n) | BigInt(byte & 127), 0n);
    need(height > above && header[2] === `08${varint(height)}`, "the signed headers are not in the order of heights");
    const [round, parts] = [take(signed, "round", INT), take(signed, "parts", OBJECT)];
    const [total, hash] = [take(parts, "total", INT), take(parts, "hash", HEX)];
    const partsId = chunk("12", unlessZero("08", total) + (hash && chunk("12", hash)));
    const blockId = chunk("22", `0a20${await merkleRoot(header)}${partsId}`);
    const vote = `080211${reversed(fixed(height, 8))}${round ? `19${reversed(fixed(round, 8))}` : ""}${blockId}`;
    const signers = [];
    for (const each of takeList(signed, "signatures", OBJECT)) {
        const [place, seconds, nanos] = ["validator", "seconds", "nanos"].map((name) => take(each, name, INT));
        const isNext = place > (signers.at(-1)?.place ?? -1n) && place < validators.length;
        need(isNext, "a signature is there twice, is not in order, or is nobody's");
        const time = chunk("2a", unlessZero("08", seconds) + unlessZero("10", nanos));
        const [{ key, power }, message] = [validators[Number(place)], chunk("", vote + time + chunk("32", engineId))];
        need(await isSigned(key, message, take(each, "signature", 64)), `the signature of validator ${place} is wrong`);
        signers.push({ place, power });
    }
    const [power, of] = [signers, validators].map((some) => some.reduce((sum, each) => sum + each.power, 0n));
    need(3n * power > 2n * of, `only ${power} of ${of} of the voting power signed`);
    return { header, height, signers: signers.length, validators: validators.length, power, of };
}
/** Each set of validators signs the next one, from genesis on, and the last signs the head. */
async function checkSignatures(certificate, head, genesis) {
    const steps = takeList(certificate, "steps", OBJECT);
    let [validators, height, everybodyHasTheKey] = [genesis.validators, 0n, genesis.everybodyHasTheKey];
    for (const step of steps) {
        const change = await checkSigned(take(step, "signed", OBJECT), validators, genesis, height);
        const rows = takeList(step, "validators", OBJECT);
        const keys = rows.map((row) => [take(row, "publicKey", 32), take(row, "power", INT)]);
        [validators, height] = [await ranked(keys), change.height];
        need(change.header[8] === `0a20${await setHash(validators)}`, "the next validators are not the signed ones");
        everybodyHasTheKey ||= validators.every(isDevKey);
    }
    const { header, ...signed } = await checkSigned(take(certificate, "signed", OBJECT), validators, genesis, height);
    need(header[10] === `0a20${head.hash}`, "the validators signed another block");
    return { ...signed, steps: steps.length, everybodyHasTheKey };
}

// What is proven: blocks, payments, accounts.
function readHeader(header, { chainId }) {
    const items = rlpList(header);
    const sizes = items.map((item) => (typeof item === "string" ? item.length / 2 : "list"));
    const fixedSizes = [...sizes.slice(0, 8), ...sizes.slice(12, 15)].join();
    const isHeader = items.length === 16 && fixedSizes === "32,32,20,32,32,32,256,0,18,32,8";
    need(isHeader, "a header does not have the fields of one");
    const [previousHash, uncles, proposer, stateRoot, transactionsRoot, receiptsRoot, bloom] = items;
    const [extra, mixHash, nonce] = items.slice(12);
    need(uncles === keccak256("c0") && /^0+$/.test(bloom + nonce), "an unused field of a header is set");
    need(extra.startsWith(`${ascii("cairn")}03${fixed(chainId, 8)}`), "a header of another chain or format");
    const [height, gasLimit, gasUsed, timestamp] = items.slice(8, 12).map((item) => uint(item, 8));
    const roots = { stateRoot, transactionsRoot, receiptsRoot, mixHash, transactionCount: integer(extra.slice(28)) };
    const numbers = { height, timestamp, gasLimit, gasUsed, baseFeePerGas: uint(items[15], 32) };
    return { header, hash: keccak256(header), previousHash, proposer, ...roots, ...numbers };
}
/** The block of that header. It must be that later block, or be in its history. */
async function checkBlock(header, path, later, genesis) {
    const block = readHeader(header, genesis);
    if (header === later.header) need(path.length === 0, "a block is not in its own history");
    else await checkIncluded("block", block.hash, block.height, later.height, path, later.mixHash);
    return block;
}
const takeBlock = (holder, name, head, genesis, part = take(holder, name, OBJECT)) =>
    checkBlock(take(part, "header", HEX), takeList(part, "history", 32), head, genesis);
async function checkPayment(part, block, { chainId }) {
    const [raw, index, path] = [take(part, "transaction", HEX), take(part, "index", INT), takeList(part, "path", 32)];
    const hash = keccak256(raw);
    await checkIncluded("payment", hash, index, block.transactionCount, path, block.transactionsRoot);
    const type = raw < "03" ? Number.parseInt(raw.slice(0, 2), 16) : 0;
    const fields = rlpList(type ? raw.slice(2) : raw);
    need(fields.length === [9, 11, 12][type], "a payment does not have the fields of one");
    const [body, [v, r, s]] = [fields.slice(0, -3), fields.slice(-3).map((item) => uint(item, 32))];
    const id = fixed(chainId, 8).replace(/^(00)+/, "");
    const digest = keccak256(type ? fixed(type, 1) + rlp(body) : rlp([...body, id, "", ""]));
    const parity = type ? v : v - 2n * chainId - 35n;
    const isOurs = type === 0 || (body.shift() === id && Array.isArray(body.pop()));
    need(isOurs && (parity === 0n || parity === 1n), "a payment is not signed for this chain, or has an access list");
    const [[gas, to, value, data], maxTip, maxFee] = [body.slice(-4), uint(body[1], 32), uint(body[type || 1], 32)];
    const fits = typeof data === "string" && data.length <= 512 && maxTip <= maxFee;
    need(fits && to.length === 40, "a payment that no block can hold");
    const tipped = block.baseFeePerGas + maxTip;
    const gasPrice = type === 2 && tipped < maxFee ? tipped : maxFee;
    const fee = gasPrice * bytesOf(data).reduce((sum, byte) => sum + (byte ? 16n : 4n), 21000n);
    const own = { value: uint(value, 32), nonce: uint(body[0], 8), gas: uint(gas, 8), data };
    return { hash, index, type, from: signerOf(digest, r, s, parity), to, ...own, gasPrice, maxFee, maxTip, fee };
}
/** A leaf of so many bytes, cut into parts. */
async function takeLeaf(what, part, [index, count], root, ...sizes) {
    const leaf = take(part, "leaf", sizes.reduce((sum, size) => sum + size));
    await checkIncluded(what, leaf, take(part, index, INT), take(part, count, INT), takeList(part, "path", 32), root);
    let at = 0;
    return sizes.map((size) => leaf.slice(at, (at += 2 * size)));
}
const holding = (balance, nonce) => ({ balance: integer(balance), nonce: integer(nonce) });
/** What the account holds at the head, and when it was touched last: -1 where there is no such account. */
async function checkState(part, address, head) {
    need(take(part, "number", INT) > 0n, "account: the first place is not one's");
    const parts = await takeLeaf("account", part, ["number", "size"], head.stateRoot, 20, 32, 8, 8, 20);
    const [owner, balance, nonce, touched, next] = parts;
    if (owner === address) return { touched: integer(touched), held: holding(balance, nonce) };
    const isGap = owner < next ? owner < address && address < next : owner < address || address < next;
    need(isGap, "the proof is about another account");
    return { touched: -1n, held: holding("", "") };
}
/** What the account held before and after a block, and when it was touched before that: -1 if never. */
async function checkChange(part, address, head, genesis) {
    const block = await takeBlock(part, "block", head, genesis);
    const leaf = await takeLeaf("change", part, ["index", "count"], block.receiptsRoot, 20, 8, 32, 8, 32, 8);
    const [owner, touched, balance, nonce, newBalance, newNonce] = leaf;
    need(owner === address, "the proof is about another account");
    const before = touched === "f".repeat(16) ? -1n : integer(touched);
    return { block, touched: before, held: holding(balance, nonce), after: holding(newBalance, newNonce) };
}
/** The account after that height: by its next change, or by the state at the head. */
async function checkEnd(file, name, height, address, head, genesis) {
    need(Object.hasOwn(file, name) !== Object.hasOwn(file, "state"), `there must be one of ${name} and state`);
    if (Object.hasOwn(file, "state")) return checkState(take(file, "state", OBJECT), address, head);
    const change = await checkChange(take(file, name, OBJECT), address, head, genesis);
    need(change.block.height > height, "the change is not after the height");
    return change;
}
/** With all payments of the block that name the account. The rest is fees of the proposer, or set by a dev chain. */
async function checkEntry(part, change, address, genesis) {
    const [{ block, held, after }, payments] = [change, []];
    let { balance, nonce } = held;
    for (const given of takeList(part, "payments", OBJECT)) {
        const payment = await checkPayment(given, block, genesis);
        const { index, from, to, value, fee } = payment;
        need(index > (payments.at(-1)?.index ?? -1n), "the payments are not in the order of the block");
        need(from === address || to === address, "a payment of others is in the statement");
        need(from !== address || payment.nonce === nonce, "a payment that the account sent is left out");
        if (from === address) [balance, nonce] = [balance - value - fee, nonce + 1n];
        if (to === address) balance += value;
        payments.push(payment);
    }
    const rest = after.balance - balance;
    const isExplained = rest === 0n || block.transactionCount === 0n || (block.proposer === address && rest > 0n);
    need(nonce === after.nonce && isExplained, "the payments do not add up to the change of the account");
    return { ...change, payments, rest };
}
async function statement(file, head, genesis) {
    const [address, from, to] = [take(file, "address", 20), take(file, "from", INT), take(file, "to", INT)];
    need(from <= to && to <= head.height, "from, to and the signed block are not in order");
    const entries = [];
    const link = ({ touched, held }) => {
        const { block, after } = entries.at(-1) ?? { after: held };
        const isSame = held.balance === after.balance && held.nonce === after.nonce;
        need(isSame && (block ? touched === block.height : touched < from), "a change of the account is left out");
    };
    for (const part of takeList(file, "changes", OBJECT)) {
        const change = await checkChange(part, address, head, genesis);
        const { height } = change.block;
        link(change);
        const isWithin = height > change.touched && height >= from && height <= to;
        need(isWithin, "a change is not within the statement, or not in order");
        entries.push(await checkEntry(part, change, address, genesis));
    }
    const end = await checkEnd(file, "next", to, address, head, genesis);
    link(end);
    return { address, from, to, opening: entries[0]?.held ?? end.held, closing: end.held, entries };
}
async function receipt(file, head, genesis) {
    const block = await takeBlock(file, "block", head, genesis);
    return { block, payment: await checkPayment(take(file, "payment", OBJECT), block, genesis) };
}
async function account(file, head, genesis) {
    const [address, height] = [take(file, "address", 20), take(file, "height", INT)];
    const { touched, held } = await checkEnd(file, "change", height, address, head, genesis);
    need(height <= head.height && touched <= height, "the account was touched after that height");
    return { address, height, exists: touched >= 0n, ...held };
}
async function history(file, head, genesis) {
    const second = await takeBlock(file, "second", head, genesis);
    const first = await checkBlock(take(file, "first", HEX), takeList(file, "inclusion", 32), second, genesis);
    need(first.height < second.height, "the first block is not below the second");
    await checkAppended(first, second, takeList(file, "consistency", 32));
    return { first, second };
}
const finality = async (file, head, genesis) => ({ block: await takeBlock(file, "block", head, genesis) });
const FORMATS = new Map(Object.entries({ finality, receipt, account, statement, history }));
/** Finds the trusted block, and the signature of the witness, among the head and the blocks after it. */
async function checkDescendants(file, head, genesis, at, witness) {
    let [isFound, isWitnessed] = [at === `${head.height}:0x${head.hash}`, false];
    for (const part of Object.hasOwn(file, "descendants") ? takeList(file, "descendants", OBJECT) : []) {
        const later = readHeader(take(part, "header", HEX), genesis);
        await checkBlock(head.header, takeList(part, "history", 32), later, genesis);
        isFound ||= at === `${later.height}:0x${later.hash}`;
        const message = `${ascii("cairn witness 1")}00${genesis.digest}${fixed(later.height, 8)}${later.hash}`;
        for (const row of takeList(part, "witnesses", OBJECT)) {
            const [key, signature] = [take(row, "publicKey", 32), take(row, "signature", 64)];
            isWitnessed ||= `0x${key}` === witness && (await isSigned(key, message, signature));
        }
    }
    need(at === undefined || isFound, "the trusted block is not in the file");
    need(witness === undefined || isWitnessed, "the witness did not sign a block of the file");
}
/** The genesis is that of `readGenesis`, or the bytes of its file. */
export async function checkFile(given, fileText, { at, witness } = {}) {
    need(globalThis.crypto?.subtle, "browsers check signatures only on pages from https or localhost");
    try {
        const [genesis, file] = [given instanceof Uint8Array ? await readGenesis(given) : given, readJson(fileText)];
        const certificate = take(file, "certificate", OBJECT);
        const head = readHeader(take(certificate, "header", HEX), genesis);
        await checkDescendants(file, head, genesis, at, witness);
        const signed = at === undefined ? await checkSignatures(certificate, head, genesis) : null;
        const check = FORMATS.get(/^cairn-(\w+)-1$/.exec(file.format)?.[1]) ?? fail("the file is of no known format");
        return { format: file.format, ...(await check(file, head, genesis)), head, signed };
    } catch (failure) {
        throw failure instanceof NotProven ? failure : new NotProven(`it cannot be read: ${failure}`);
    }
}

const { argv, versions } = globalThis.process ?? {};
const { realpathSync, readFileSync } = versions?.node ? await import("node:fs") : {};
if (argv?.[1] && import.meta.url === new URL(realpathSync(argv[1]), "file:").href) {
    process.removeAllListeners("warning"); // Node.js 20 calls Ed25519 in WebCrypto experimental.
    const { parseArgs } = await import("node:util");
    const text = { type: "string" };
    try {
        const { values, positionals } = parseArgs({ allowPositionals: true, options: { at: text, witness: text } });
        need(positionals.length === 2, "usage: verify.mjs GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]");
        const [genesis, file] = positionals.map((path) => readFileSync(path));
        const digits = (_, value) => (typeof value === "bigint" ? value.toString() : value);
        console.log(JSON.stringify(await checkFile(genesis, file.toString("latin1"), values), digits, 2));
    } catch (failure) {
        console.log(`NOT PROVEN: ${failure.message}`);
        process.exitCode = 1;
    }
}
