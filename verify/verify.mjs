// @ts-nocheck: it has no types of its own; those of its report are where it is used.
// Checks proofs of a Cairn chain with its genesis.json alone, by docs/formats.md. Node.js 20 or newer, or a browser.
//     node verify.mjs GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]      exit 0 with a report, 1 if it is not proven
//     await checkFile(genesisBytes, fileText, { at, witness })             the report; throws NotProven
// Bytes are hexadecimal text without 0x everywhere below, so that === compares and + joins them. Integers are BigInts.
export class NotProven extends Error {}
const need = (holds, reason) => { if (!holds) throw new NotProven(reason); };
// Bytes and hashes: SHA-256 by WebCrypto, and Keccak-256 as Ethereum has it, in halves of lanes, of 32 bits.
const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const ascii = (text) => hexOf(new TextEncoder().encode(text));
const integer = (hex) => BigInt(`0x${hex || "0"}`);
const fixed = (number, size) => number.toString(16).padStart(2 * size, "0");
const sha256 = async (hex) => hexOf(new Uint8Array(await crypto.subtle.digest("SHA-256", bytesOf(hex))));
const turned = (all, at, bits, half = at ^ (bits >> 5)) => (all[half] << bits) | (all[half ^ 1] >>> 1 >>> (31 - bits));
const TURNS = [0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14]; // Bits.
const FROM = TURNS.map((_, to) => 5 * (to % 5) + ((3 * Math.floor(to / 5) + to) % 5)); // Which lane moves there.
function keccak(bytes, data = new Uint8Array(bytes.length + 136 - (bytes.length % 136))) {
    data.set(bytes);
    for (const [at, bit] of [[bytes.length, 1], [data.length - 1, 0x80]]) data[at] |= bit;
    const [words, sums, lanes, moved] = [data.buffer, 10, 50, 50].map((each) => new Int32Array(each)); // Little-endian.
    const beside = (i, x) => moved[i - (i % 10) + ((i + x) % 10)];
    for (let at = 0; at < words.length; at += 34) {
        for (let i = 0; i < 34; i += 1) lanes[i] ^= words[at + i];
        for (let round = 0, b = 1; round < 24; round += 1) {
            for (let i = 0; i < 50; i += 1) sums[i % 10] = (i < 10 ? 0 : sums[i % 10]) ^ lanes[i];
            for (let i = 0; i < 50; i += 1) lanes[i] ^= sums[(i + 8) % 10] ^ turned(sums, (i + 2) % 10, 1);
            for (let i = 0; i < 50; i += 1) moved[i] = turned(lanes, 2 * FROM[i >> 1] + (i % 2), TURNS[FROM[i >> 1]]);
            for (let i = 0; i < 50; i += 1) lanes[i] = moved[i] ^ (~beside(i, 2) & beside(i, 4));
            for (let i = 1; i < 65; i *= 2, b = (b << 1) ^ ((b >> 7) * 0x171)) lanes[i >> 6] ^= (b & 1) << (i - 1);
        }
    }
    return hexOf(new Uint8Array(lanes.buffer, 0, 32));
}
export const keccak256 = (hex) => keccak(bytesOf(hex));
// Signatures: Ed25519 (RFC 8032) by WebCrypto, and whose one of secp256k1 is. Points of that curve are x : y : z.
const isSigned = (key, message, signature) =>
    crypto.subtle.importKey("raw", bytesOf(key), "Ed25519", false, ["verify"]).catch(() => null).then((imported) =>
        imported !== null && crypto.subtle.verify("Ed25519", imported, bytesOf(signature), bytesOf(message)));
const [P, N] = [2n ** 256n - 2n ** 32n - 977n, 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n];
const G = [0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n,
    0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8n, 1n];
const modulo = (value, modulus) => ((value % modulus) + modulus) % modulus;
const raised = (base, exponent, prime) =>
    exponent ? (raised((base * base) % prime, exponent >> 1n, prime) * (exponent & 1n ? base : 1n)) % prime : 1n;
function add([x, y, z], [x2, y2, z2]) { // Without exceptions: Renes, Costello and Batina 2015, algorithm 7.
    const [xy, yz, xz, xx] = [x * y2 + x2 * y, y * z2 + y2 * z, x * z2 + x2 * z, 3n * x * x2];
    const [low, high] = [y * y2 - 21n * z * z2, y * y2 + 21n * z * z2];
    return [(xy * low - 21n * yz * xz) % P, (21n * xz * xx + low * high) % P, (high * yz + xx * xy) % P];
}
function signerOf(digest, r, s, parity) {
    const [cube, inverse] = [(r ** 3n + 7n) % P, raised(r, N - 2n, N)];
    const y = raised(cube, (P + 1n) / 4n, P);
    const point = [r, (y & 1n) === parity ? y : P - y, 1n];
    const [a, b] = [(s * inverse) % N, modulo(-integer(digest) * inverse, N)]; // The key is a · point + b · G.
    const addends = [[0n, 1n, 0n], point, G, add(point, G)];
    let [sum] = addends;
    for (let bit = 255n; bit >= 0n; bit -= 1n)
        sum = add(add(sum, sum), addends[Number(((a >> bit) & 1n) + 2n * ((b >> bit) & 1n))]);
    const isValid = r > 0n && r < N && s > 0n && s <= N / 2n && (y * y) % P === cube && sum[2] !== 0n;
    need(isValid && (parity === 0n || parity === 1n), "the signature of a payment is not valid for this chain");
    const share = raised(modulo(sum[2], P), P - 2n, P);
    return keccak256(fixed(modulo(sum[0] * share, P), 32) + fixed(modulo(sum[1] * share, P), 32)).slice(24);
}
// Merkle trees (RFC 6962). Paths have the siblings of a node and of those above it, lowest first.
const EMPTY_ROOT = "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"; // As Ethereum has it.
const nodeHash = (left, right) => sha256(`01${left}${right}`);
export async function merkleRoot(leaves) {
    if (leaves.length < 2) return leaves.length ? sha256(`00${leaves[0]}`) : EMPTY_ROOT;
    const half = 2 ** (31 - Math.clz32(leaves.length - 1));
    return nodeHash(...(await Promise.all([leaves.slice(0, half), leaves.slice(half)].map(merkleRoot))));
}
async function climb(index, size, node, path) { // To the roots of the leaves up to a node, and of all.
    let [old, now, used] = [node, node, 0];
    for (let last = size - 1n; last > 0n; index >>= 1n, last >>= 1n) {
        if (index % 2n === 0n && index === last) continue; // It has no sibling: it moves up.
        if (index % 2n) [old, now] = [await nodeHash(path[used], old), await nodeHash(path[used], now)];
        else now = await nodeHash(now, path[used]);
        used += 1;
    }
    return used === path.length ? [old, now] : [];
}
async function checkIncluded(what, data, index, size, path, root) {
    const [, top] = await climb(index, size, await merkleRoot([data]), path);
    need(index < size && top === root, `${what}: the path does not lead to the root in the block`);
}
// What files have, by rules narrower than JSON's, so that all verifiers read the same. A number is so many bytes.
const [INT, HEX, PATH, OPTIONAL] = ["integer", "bytes", [32], ["descendants", "state", "change", "next"]];
const [VOTE, SEAL] = [{ validator: INT, seconds: INT, nanos: INT, signature: 64 }, { publicKey: 32, signature: 64 }];
const SIGNED = { header: [HEX], round: INT, parts: { total: INT, hash: HEX }, signatures: [VOTE] };
const STEPS = { steps: [{ signed: SIGNED, validators: [{ publicKey: 32, power: INT }] }], signed: SIGNED };
const [BLOCK, PAYMENT] = [{ header: HEX, history: PATH }, { transaction: HEX, index: INT, path: PATH }];
const ALL = { certificate: { header: HEX }, descendants: [{ ...BLOCK, witnesses: [SEAL] }] };
const CHANGE = { block: BLOCK, leaf: 108, index: INT, count: INT, path: PATH };
const END = { address: 20, state: { leaf: 88, number: INT, size: INT, path: PATH } };
const SHAPES = {
    finality: { block: BLOCK }, receipt: { block: BLOCK, payment: PAYMENT },
    account: { ...END, height: INT, change: CHANGE },
    statement: { ...END, from: INT, to: INT, changes: [{ ...CHANGE, payments: [PAYMENT] }], next: CHANGE },
    history: { first: HEX, second: BLOCK, inclusion: PATH, consistency: PATH },
};
function read(value, shape, name = "file") { // The value, without what nobody asks for.
    const isHex = typeof value === "string" && /^0x([0-9a-f]{2})*$/.test(value);
    if (isHex && (shape === HEX || shape === value.length / 2 - 1)) return value.slice(2);
    if (shape === INT && Number.isSafeInteger(value)) return BigInt(value);
    if (Array.isArray(shape) && Array.isArray(value)) return value.map((item) => read(item, shape[0], name));
    need([shape, value].every((each) => typeof each === "object" && !Array.isArray(each)), `${name} is not right`);
    const keys = Object.keys(shape).filter((key) => Object.hasOwn(value, key) || !OPTIONAL.includes(key));
    return Object.fromEntries(keys.map((key) => [key, read(value[key], shape[key], key)]));
}
function readJson(text) {
    let bare = text.replace(/"[ !#-[\]-~]*"/g, "");
    for (let depth = 0; depth < 32; depth += 1) bare = bare.replace(/[[{][\d:, \t\n\r]*[\]}]/g, ""); // The innermost.
    need(/^[\d:, \t\n\r]*$/.test(bare), "the file has a sign that no proof has, or is nested more than 32 deep");
    return JSON.parse(text);
}
// How bytes are made of fields, and fields of bytes: RLP, as Ethereum has it, and protobuf, as CometBFT signs it.
function rlp(item) {
    const [kind, body] = typeof item === "string" ? [0x80, item] : [0xc0, item.map(rlp).join("")];
    const size = body.length / 2;
    if (kind === 0x80 && size === 1 && body < "80") return body;
    const digits = fixed(size, size > 255 ? 2 : 1);
    return (size < 56 ? fixed(kind + size, 1) : fixed(kind + 55 + digits.length / 2, 1) + digits) + body;
}
function rlpList(raw) { // Strings, and empty lists. Encoded again they must be the same, so there is one way to write.
    const [items, number] = [[], (from, to) => Number.parseInt(raw.slice(from, to), 16)];
    for (let at = 2 + 2 * Math.max(0, number(0, 2) - 0xf7), end; at < raw.length; at = end) {
        const first = number(at, at + 2);
        const start = first < 0x80 ? at : at + 2 + (first < 0xc0 ? 2 * Math.max(0, first - 0xb7) : 0);
        const size = first < 0x80 ? 1 : first < 0xb8 ? first - 0x80 : first < 0xc0 ? number(at + 2, start) : 0;
        end = start + 2 * size;
        items.push(first < 0xc0 ? raw.slice(start, end) : []);
    }
    need(rlp(items) === raw, "a header or a payment is not canonical RLP");
    return items;
}
function field(item, size) { // It has so many bytes. Where the size is negative, it is an integer of at most so many.
    const fits = size < 0 ? item.length <= -2 * size && !item.startsWith?.("00") : item.length === 2 * size;
    need(typeof item === "string" && fits, "a header or a payment does not have the fields of one");
    return size < 0 ? integer(item) : item;
}
const varint = (number) => (number > 127n ? fixed((number & 127n) | 128n, 1) + varint(number >> 7n) : fixed(number, 1));
const chunk = (tag, body) => tag + varint(BigInt(body.length / 2)) + body;
const unlessZero = (tag, number) => (number ? tag + varint(number) : "");
const littleEndian = (number) => hexOf(bytesOf(fixed(number, 8)).reverse());
// Who signs: the genesis, the validators in CometBFT's order, the signed head.
const DEV_SIGNER = "61e3d5fd875f007dd386d790641c8c3fb160ba020970ca733f8857a89689445f"; // Everybody has its other half.
const isDev = (validators) => validators.some(({ publicKey }) => publicKey === DEV_SIGNER);
async function ranked(rows) {
    const ranks = new Map(await Promise.all(rows.map(async (row) => [row, await sha256(row.publicKey)])));
    return [...rows].sort((a, b) => Number(b.power - a.power) || (ranks.get(a) < ranks.get(b) ? -1 : 1));
}
async function setHash(validators) {
    const [{ size }, order] = [new Set(validators.map(({ publicKey }) => publicKey)), await ranked(validators)];
    const isRight = (each, i) => each === order[i] && each.power > 0n && each.power < 2n ** 53n;
    need(size > 0 && size === validators.length && validators.every(isRight), "no set of validators in its order");
    return merkleRoot(validators.map(({ publicKey, power }) => `0a220a20${publicKey}10${varint(power)}`));
}
export async function readGenesis(bytes) {
    const quoted = (token, digits) => (digits ? `"#${digits}"` : token); // A chain id may be above 2^53.
    const unquoted = (text) => BigInt(/^#(\d+)$/.exec(text)[1]);
    const fields = JSON.parse(new TextDecoder().decode(bytes).replace(/"(?:[^"\\]|\\.)*"|(\d+)/g, quoted));
    need(Object.hasOwn(fields, "signer") !== Object.hasOwn(fields, "validators"), "genesis does not say who signs");
    const keyOf = (text) => Uint8Array.from(atob(/^[A-Za-z0-9+/]{43}=$/.exec(text)[0]), (sign) => sign.charCodeAt(0));
    const rows = (fields.validators ?? [{ publicKey: fields.signer, power: "#1" }]).map(({ publicKey, power }) =>
        ({ publicKey: hexOf(keyOf(publicKey)), power: unquoted(power) }));
    const [digest, chainId, validators] = [keccak(bytes), unquoted(fields.chainId), await ranked(rows)];
    need(chainId > 0n && chainId < 2n ** 63n - 36n, "the chain id in genesis is out of range");
    const engineId = ascii(`cairn-${chainId}-${digest.slice(0, 24)}`);
    return { digest, chainId, engineId, validators, everybodyHasTheKey: isDev(validators) };
}
async function checkSigned({ header, round, parts, signatures }, validators, engineId, above) {
    need(header[1] === chunk("0a", engineId), "signed for another chain, or for another genesis");
    need(header[7] === `0a20${await setHash(validators)}`, "signed by other validators");
    const height = bytesOf(header[2].slice(2, 20)).reduceRight((sum, byte) => (sum << 7n) | BigInt(byte & 127), 0n);
    need(header.length === 14 && header[2] === `08${varint(height)}` && height > above, "not a higher signed header");
    const partsId = chunk("12", unlessZero("08", parts.total) + (parts.hash && chunk("12", parts.hash)));
    const blockId = chunk("22", `0a20${await merkleRoot(header)}${partsId}`);
    const vote = `080211${littleEndian(height)}${round ? `19${littleEndian(round)}` : ""}${blockId}`;
    const by = signatures.map(({ validator }) => validators[validator]);
    const isNext = ({ validator }, i) => by[i] && (i === 0 || validator > signatures[i - 1].validator);
    need(signatures.every(isNext), "a signature is there twice, is not in order, or is nobody's");
    for (const [i, { seconds, nanos, signature }] of signatures.entries()) {
        const rest = chunk("2a", unlessZero("08", seconds) + unlessZero("10", nanos)) + chunk("32", engineId);
        need(await isSigned(by[i].publicKey, chunk("", vote + rest), signature), `signature ${i} is wrong`);
    }
    const [power, of] = [by, validators].map((some) => some.reduce((sum, each) => sum + each.power, 0n));
    need(3n * power > 2n * of, `only ${power} of ${of} of the voting power signed`);
    return { height, report: { by: by.map(({ publicKey }) => publicKey), validators: validators.length, power, of } };
}
async function checkSignatures({ steps, signed }, { head, engineId, ...genesis }) { // Each set signs the next one.
    let [above, { validators, everybodyHasTheKey }] = [0n, genesis];
    for (const { signed: change, validators: next } of steps) {
        [above, validators] = [(await checkSigned(change, validators, engineId, above)).height, next];
        need(change.header[8] === `0a20${await setHash(validators)}`, "the next validators are not the signed ones");
        need(change.header[7] !== change.header[8], "a step changes nothing");
        everybodyHasTheKey ||= isDev(validators);
    }
    const { report } = await checkSigned(signed, validators, engineId, above);
    need(signed.header[10] === `0a20${head.hash}`, "the validators signed another block");
    return { ...report, steps: steps.length, everybodyHasTheKey };
}
// What a block holds: payments and changes. A proof has the fields of the genesis and of the file, and its head.
const HEADER = Object.entries({ previousHash: 32, uncles: 32, proposer: 20, stateRoot: 32, transactionsRoot: 32,
    receiptsRoot: 32, bloom: 256, difficulty: 0, height: -8, gasLimit: -8, gasUsed: -8, time: -8, extra: 18,
    mixHash: 32, nonce: 8, baseFeePerGas: -32 });
function readHeader(header, { chainId }) {
    const items = rlpList(header);
    const block = Object.fromEntries(HEADER.map(([name, size], i) => [name, field(items[i], size)]));
    const isOurs = block.extra.startsWith(`${ascii("cairn")}03${fixed(chainId, 8)}`) && items.length === HEADER.length;
    need(isOurs && block.uncles + block.bloom + block.nonce === keccak256("c0") + "0".repeat(528), "a foreign header");
    return { ...block, header, hash: keccak256(header), transactionCount: integer(block.extra.slice(28)) };
}
async function checkBlock(proof, { header, history: path }, later = proof.head) { // Is it that, or in its history?
    const [block, isSame] = [readHeader(header, proof), header === later.header && path.length === 0];
    if (!isSame) await checkIncluded("block", block.hash, block.height, later.height, path, later.mixHash);
    return block;
}
async function checkPayment({ chainId }, { transaction: raw, index, path }, block) {
    const [hash, type] = [keccak256(raw), raw < "03" ? Number.parseInt(raw.slice(0, 2), 16) : 0];
    await checkIncluded("payment", hash, index, block.transactionCount, path, block.transactionsRoot);
    const fields = rlpList(type ? raw.slice(2) : raw);
    const [body, [v, r, s]] = [fields.slice(0, -3), fields.slice(-3).map((item) => field(item, -32))];
    const id = fixed(chainId, 8).replace(/^(00)+/, "");
    const digest = keccak256(type ? fixed(type, 1) + rlp(body) : rlp([...body, id, "", ""]));
    const isOurs = fields.length === [9, 11, 12][type] && (!type || (body.shift() === id && Array.isArray(body.pop())));
    const [nonce, maxTip, maxFee] = [field(body[0], -8), field(body[1], -32), field(body[type || 1], -32)];
    const [gas, to, value, data] = body.slice(-4).map((item, i) => field(item, [-8, 20, -32, item.length / 2][i]));
    need(isOurs && data.length <= 512 && maxTip <= maxFee, "a payment that no block of this chain can hold");
    const gasPrice = type === 2 && block.baseFeePerGas + maxTip < maxFee ? block.baseFeePerGas + maxTip : maxFee;
    const fee = gasPrice * bytesOf(data).reduce((sum, byte) => sum + (byte ? 16n : 4n), 21000n);
    const from = signerOf(digest, r, s, type ? v : v - 2n * chainId - 35n);
    return { from, to, value, data, fee, nonce, hash, index, type, gas, gasPrice, maxFee, maxTip };
}
const holding = (held) => ({ balance: integer(held.slice(0, 64)), nonce: integer(held.slice(64)) }); // In all leaves.
async function checkChange(proof, { block: given, leaf, index, count, path }) { // Touched at -1 is never.
    const block = await checkBlock(proof, given);
    await checkIncluded("change", leaf, index, count, path, block.receiptsRoot);
    const [owner, before, held, after] = /^(.{40})(.{16})(.{80})(.{80})$/.exec(leaf).slice(1);
    need(owner === proof.address, "the proof is about another account");
    return { block, touched: before === "f".repeat(16) ? -1n : integer(before), held, after };
}
async function checkEnd(proof, change, height) { // After that height: by the next change, or by the state at the head.
    const [{ state, address, head }, end] = [proof, change && (await checkChange(proof, change))];
    need(change ? !state && end.block.height > height : state, "there is not one of a later change and the state");
    if (change) return end;
    await checkIncluded("account", state.leaf, state.number, state.size, state.path, head.stateRoot);
    const [owner, held, touched, next] = /^(.{40})(.{80})(.{16})(.{40})$/.exec(state.leaf).slice(1);
    const isGap = owner < next ? owner < address && address < next : owner < address || address < next;
    need(state.number > 0n && (owner === address || isGap), "the proof is about another account");
    return owner === address ? { touched: integer(touched), held } : { touched: -1n, held: "0".repeat(80) };
}
async function checkEntry(proof, given, { block, held, after }) { // With all payments of the block that name it.
    const [end, payments] = [holding(after), await Promise.all(given.map((part) => checkPayment(proof, part, block)))];
    need(payments.every(({ index }, i) => i === 0 || index > payments[i - 1].index), "the payments are not in order");
    let { balance, nonce } = holding(held);
    for (const payment of payments) {
        const [isSent, isReceived] = [payment.from === proof.address, payment.to === proof.address];
        need(isSent ? payment.nonce === nonce : isReceived, "a payment of others is there, or a sent one is left out");
        if (isSent) [balance, nonce] = [balance - payment.value - payment.fee, nonce + 1n];
        if (isReceived) balance += payment.value;
    }
    const [rest, source] = [end.balance - balance, block.transactionCount ? "feesOfTheBlock" : "setNotPaid"];
    const isExplained = rest === 0n || source === "setNotPaid" || (block.proposer === proof.address && rest > 0n);
    need(nonce === end.nonce && isExplained, "the payments do not add up to the change of the account");
    return { height: block.height, time: block.time, ...end, payments, ...(rest && { [source]: rest }) };
}
// What files prove, by kind. The block of a file that has one is checked before.
const KINDS = {
    finality: ({ block }) => ({ block }),
    receipt: async (proof) => ({ block: proof.block, payment: await checkPayment(proof, proof.payment, proof.block) }),
    async account(proof) {
        const { touched, held } = await checkEnd(proof, proof.change, proof.height);
        need(proof.height <= proof.head.height && touched <= proof.height, "the account was touched after that height");
        return { address: proof.address, height: proof.height, exists: touched >= 0n, ...holding(held) };
    },
    async statement(proof) { // Each change names the one before it, and the end names the last.
        const { address, from, to, changes, next, head } = proof;
        const seen = await Promise.all([...changes.map((part) => checkChange(proof, part)), checkEnd(proof, next, to)]);
        const isNext = ({ touched, held }, last) => touched === last.block.height && held === last.after;
        need(seen.every((each, i) => (i ? isNext(each, seen[i - 1]) : each.touched < from)), "a change is left out");
        const isWithin = ({ block, touched }) => block.height > touched && block.height >= from && block.height <= to;
        need(from <= to && to <= head.height && seen.slice(0, -1).every(isWithin), "not all is within the statement");
        const entries = await Promise.all(changes.map((part, i) => checkEntry(proof, part.payments, seen[i])));
        return { address, from, to, opening: holding(seen[0].held), closing: holding(seen.at(-1).held), entries };
    },
    async history(proof) { // The newer one begins with the older one.
        const [first, path] = [readHeader(proof.first, proof), proof.consistency];
        const [second, { height, mixHash }] = [await checkBlock(proof, proof.second), first];
        await checkIncluded("block", first.hash, height, second.height, proof.inclusion, second.mixHash);
        if (height === 0n && path.length === 0 && mixHash === EMPTY_ROOT) return { first, second };
        const level = BigInt(/0*$/.exec(height.toString(2))[0].length);
        // Where the older tree is a whole one, it is a node of the newer one, and the path leaves it out.
        const [start, ...rest] = height === 1n << level ? [mixHash, ...path] : path;
        const [old, now] = await climb((height >> level) - 1n, ((second.height - 1n) >> level) + 1n, start, rest);
        need(height > 0n && old === mixHash && now === second.mixHash, "history: the newer one begins otherwise");
        return { first, second };
    },
};
async function checkDescendants(proof, at, witness) { // One is trusted, or the head is. One is witnessed.
    const [{ head, digest, descendants = [] }, nameOf] = [proof, ({ height, hash }) => `${height}:0x${hash}`];
    let [isFound, isWitnessed] = [at === undefined || at === nameOf(head), witness === undefined];
    for (const { header, history: path, witnesses } of descendants) {
        const later = readHeader(header, proof);
        await checkBlock(proof, { header: head.header, history: path }, later);
        isFound ||= at === nameOf(later);
        const message = `${ascii("cairn witness 1")}00${digest}${fixed(later.height, 8)}${later.hash}`;
        for (const { publicKey: key, signature } of witnesses)
            isWitnessed ||= `0x${key}` === witness && (await isSigned(key, message, signature));
    }
    need(isFound, "the trusted block is not in the file");
    need(isWitnessed, "the witness did not sign a block of the file");
}
export async function checkFile(given, fileText, { at, witness } = {}) {
    need(globalThis.crypto?.subtle, "browsers check signatures only on pages from https or localhost");
    try {
        const [genesis, json] = [given instanceof Uint8Array ? await readGenesis(given) : given, readJson(fileText)];
        const kind = Object.keys(KINDS).find((name) => json.format === `cairn-${name}-1`);
        need(kind, "the file is of no known format");
        const proof = { ...genesis, ...read(json, { ...ALL, ...SHAPES[kind] }) };
        proof.head = readHeader(proof.certificate.header, genesis);
        await checkDescendants(proof, at, witness);
        const signed = at ? { by: "not looked at: --at" } : await checkSignatures(read(json.certificate, STEPS), proof);
        if (proof.block) proof.block = await checkBlock(proof, proof.block);
        return { kind, ...(await KINDS[kind](proof)), head: proof.head, signed };
    } catch (failure) {
        throw failure instanceof NotProven ? failure : new NotProven(`it cannot be read: ${failure}`);
    }
}
// The command. For people, bytes begin with 0x, and of a block there is what names it.
function shown(_, value) {
    if (value?.header) return { height: value.height, time: value.time, hash: value.hash };
    return typeof value === "bigint" ? value.toString() : value?.match?.(/^[0-9a-f]*$/) ? `0x${value}` : value;
}
const { readFileSync, realpathSync } = globalThis.process?.versions?.node ? await import("node:fs") : {};
if (realpathSync && process.argv[1] && import.meta.url === new URL(realpathSync(process.argv[1]), "file:").href) {
    process.removeAllListeners("warning"); // Node.js 20 calls Ed25519 in WebCrypto experimental.
    process.stdout.on("error", () => {}); // Who reads may stop early.
    const [{ parseArgs }, text] = [await import("node:util"), { type: "string" }];
    try {
        const { values, positionals } = parseArgs({ allowPositionals: true, options: { at: text, witness: text } });
        need(positionals.length === 2, "usage: verify.mjs GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]");
        const [genesis, file] = positionals.map((path) => readFileSync(path));
        const report = JSON.stringify(await checkFile(genesis, file.toString("latin1"), values), shown, 2);
        console.log(report.replace(/"(\d+)"/g, "$1")); // Integers of any size.
    } catch (failure) {
        console.log(`NOT PROVEN: ${failure.message}`);
        process.exitCode = 1;
    }
}
