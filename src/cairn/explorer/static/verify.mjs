// @ts-nocheck: it has no types of its own; those of its report are where it is used.
// Checks proofs of a Cairn chain offline, with its genesis.json alone: Node.js 20 or newer, or a browser.
//
//     node verify.mjs GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]
//     await checkFile(genesisBytes, fileText, { at, witness })             the report; throws NotProven
//
// The first line is PROVEN, or VALID, BUT NO PROOF with the reason; what holds follows as JSON. Or the only line is NOT
// PROVEN with the reason, and the exit code is 1. With --at, a block that you trust, no signature of validators is
// looked at. With --witness, the owner of this public key must have signed a block of the file. docs/formats.md has all
// rules.
//
// Bytes are hexadecimal text without 0x everywhere below, so that === compares and + joins them. Integers are BigInts.

export class NotProven extends Error {}

function need(holds, reason) {
    if (!holds) throw new NotProven(reason);
}

// ------------------------------------------------------------------------------------------------------- Limits
// The same in all verifiers, so that a file cannot keep one of them busy and pass another.

const MOST_FILE_BYTES = 2 ** 28;
const MOST_DEPTH = 32; // Of lists and objects in each other.
const MOST_INTEGER = 2n ** 53n - 1n; // Each language has these integers exactly.
const MOST_BYTES = 1024; // Where the page names no size.
const MOST_HASHES = 64; // In a path; no tree is as high.
const MOST_VALIDATORS = 1000;
const MOST_DESCENDANTS = 64;
const MOST_WITNESSES = 16; // Of each descendant.
const MOST_DATA_BYTES = 256;
const MOST_CHAIN_ID = 2n ** 63n - 37n;
const MOST_BALANCE = 2n ** 256n - 1n;

// -------------------------------------------------------------------------------------------------------- Bytes

function bytesOf(hex) {
    const bytes = new Uint8Array(hex.length / 2);
    for (let i = 0; i < bytes.length; i += 1) bytes[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16);
    return bytes;
}

const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const ascii = (text) => hexOf(new TextEncoder().encode(text));
const sizeOf = (hex) => hex.length / 2;
const integer = (hex) => BigInt(`0x${hex || "0"}`);
const fixed = (number, size) => number.toString(16).padStart(2 * size, "0");
const reversed = (hex) => hexOf(bytesOf(hex).reverse());

async function sha256(hex) {
    return hexOf(new Uint8Array(await crypto.subtle.digest("SHA-256", bytesOf(hex))));
}

// --------------------------------------------------------------------------------------------------- Keccak-256
// As on Ethereum. The state has 25 lanes of 64 bits; lane (x, y) is number x + 5 y. A lane is two halves of 32 bits, the
// lower one first.

const RATE_BYTES = 136;
const ROUNDS = 24;
const ROTATIONS = [0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14];
// Which lane comes to each place in pi.
const SOURCES = ROTATIONS.map((_, to) => 5 * (to % 5) + ((3 * Math.floor(to / 5) + to) % 5));

/** Half number `half` of the lanes, when its lane is rotated to the left. */
function rotatedHalf(lanes, half, bits) {
    const from = half ^ (bits >> 5);
    // JavaScript shifts by at most 31 bits: by 32 less what is shifted in two steps.
    return (lanes[from] << bits) | ((lanes[from ^ 1] >>> 1) >>> (31 - bits));
}

function permute(lanes) {
    const columns = new Int32Array(10);
    const moved = new Int32Array(50);
    let register = 1;
    for (let round = 0; round < ROUNDS; round += 1) {
        // Theta.
        columns.fill(0);
        for (let i = 0; i < 50; i += 1) columns[i % 10] ^= lanes[i];
        for (let i = 0; i < 50; i += 1) lanes[i] ^= columns[(i + 8) % 10] ^ rotatedHalf(columns, (i + 2) % 10, 1);
        // Rho and pi.
        for (let i = 0; i < 50; i += 1) {
            const source = SOURCES[i >> 1];
            moved[i] = rotatedHalf(lanes, 2 * source + (i % 2), ROTATIONS[source]);
        }
        // Chi, along each row of five lanes.
        for (let i = 0; i < 50; i += 1) {
            const row = i - (i % 10);
            lanes[i] = moved[i] ^ (~moved[row + ((i + 2) % 10)] & moved[row + ((i + 4) % 10)]);
        }
        // Iota: bits 0, 1, 3, 7, 15, 31 and 63 of the first lane, from the shift register of the standard.
        for (let bit = 0; bit < 7; bit += 1) {
            const place = 2 ** bit - 1;
            lanes[place >> 5] ^= (register & 1) << (place & 31);
            register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
        }
    }
}

function keccak(bytes) {
    const padded = new Uint8Array(bytes.length + RATE_BYTES - (bytes.length % RATE_BYTES));
    padded.set(bytes);
    padded[bytes.length] |= 1;
    padded[padded.length - 1] |= 0x80;
    const words = new Int32Array(padded.buffer); // Every machine that runs this is little-endian.
    const lanes = new Int32Array(50);
    for (let at = 0; at < words.length; at += RATE_BYTES / 4) {
        for (let i = 0; i < RATE_BYTES / 4; i += 1) lanes[i] ^= words[at + i];
        permute(lanes);
    }
    return hexOf(new Uint8Array(lanes.buffer, 0, 32));
}

export const keccak256 = (hex) => keccak(bytesOf(hex));

// ------------------------------------------------------------------------------------------------------ Ed25519
// By WebCrypto: RFC 8032 without the cofactor. Libraries differ on points of small order, so those are refused before.

const ED = 2n ** 255n - 19n;
const Y_OF_ORDER_8 = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
// The eight points whose order is 1, 2, 4 or 8 have these y.
const SMALL_ORDER_Y = [0n, 1n, ED - 1n, Y_OF_ORDER_8, ED - Y_OF_ORDER_8];

/** A public key or R of small order is a wrong signature, and so is one that another encoding names, y >= p. */
function isUsablePoint(encoded) {
    const y = integer(reversed(encoded)) & (2n ** 255n - 1n);
    return y < ED && !SMALL_ORDER_Y.includes(y);
}

async function isSigned(key, message, signature) {
    if (!isUsablePoint(key) || !isUsablePoint(signature.slice(0, 64))) return false;
    // What is no point of the curve cannot be imported.
    const imported = await crypto.subtle.importKey("raw", bytesOf(key), "Ed25519", false, ["verify"]).catch(() => null);
    return imported !== null && crypto.subtle.verify("Ed25519", imported, bytesOf(signature), bytesOf(message));
}

// ---------------------------------------------------------------------------------------------------- secp256k1
// Points are x : y : z. The addition is complete: algorithm 7 of Renes, Costello and Batina (2015), for y² = x³ + 7.

const SECP = 2n ** 256n - 2n ** 32n - 977n;
const SECP_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const SECP_BASE = [
    0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n,
    0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8n,
    1n,
];

const modulo = (value, modulus) => ((value % modulus) + modulus) % modulus;

function power(base, exponent, prime) {
    let [result, square] = [1n, modulo(base, prime)];
    for (let rest = exponent; rest > 0n; rest >>= 1n) {
        if (rest & 1n) result = (result * square) % prime;
        square = (square * square) % prime;
    }
    return result;
}

const inverse = (value, prime) => power(value, prime - 2n, prime);

function addPoints([x, y, z], [x2, y2, z2]) {
    const [xy, yz, xz, xx] = [x * y2 + x2 * y, y * z2 + y2 * z, x * z2 + x2 * z, 3n * x * x2];
    const [low, high] = [y * y2 - 21n * z * z2, y * y2 + 21n * z * z2];
    return [
        (xy * low - 21n * yz * xz) % SECP,
        (21n * xz * xx + low * high) % SECP,
        (high * yz + xx * xy) % SECP,
    ];
}

/** The address whose key signed. With s above half the order, anybody could make a second hash for a payment. */
function recover(digest, r, s, parity) {
    const wrong = "the signature of a payment is not valid for this chain";
    const isInRange = r > 0n && r < SECP_ORDER && s > 0n && s <= SECP_ORDER / 2n;
    need(isInRange && (parity === 0n || parity === 1n), wrong);
    const square = (r ** 3n + 7n) % SECP;
    const y = power(square, (SECP + 1n) / 4n, SECP);
    need((y * y) % SECP === square, wrong);
    const point = [r, (y & 1n) === parity ? y : SECP - y, 1n];
    // The key is (s · R - hash · B) / r.
    const ofPoint = modulo(s * inverse(r, SECP_ORDER), SECP_ORDER);
    const ofBase = modulo(-integer(digest) * inverse(r, SECP_ORDER), SECP_ORDER);
    const sums = [[0n, 1n, 0n], point, SECP_BASE, addPoints(point, SECP_BASE)];
    let total = sums[0];
    for (let bit = 255n; bit >= 0n; bit -= 1n) {
        total = addPoints(total, total);
        total = addPoints(total, sums[Number(((ofPoint >> bit) & 1n) + 2n * ((ofBase >> bit) & 1n))]);
    }
    const [keyX, keyY, keyZ] = total.map((each) => modulo(each, SECP));
    need(keyZ !== 0n, wrong);
    const share = inverse(keyZ, SECP);
    return keccak256(fixed((keyX * share) % SECP, 32) + fixed((keyY * share) % SECP, 32)).slice(24);
}

// ------------------------------------------------------------------------------------------------- Merkle trees
// RFC 6962. Leaves and nodes are hashed with different first bytes, so that none passes for the other.

const EMPTY_ROOT = keccak256("80"); // Ethereum's root of an empty list.
const leafHash = (data) => sha256(`00${data}`);
const nodeHash = (left, right) => sha256(`01${left}${right}`);

/** Nodes are paired from the left; the last one of an odd number moves up unchanged. */
export async function merkleRoot(leaves) {
    if (leaves.length === 0) return EMPTY_ROOT;
    let level = await Promise.all(leaves.map(leafHash));
    while (level.length > 1) {
        const pairs = level.filter((_, i) => i % 2 === 0);
        const below = level;
        level = await Promise.all(
            pairs.map((left, i) => (2 * i + 1 < below.length ? nodeHash(left, below[2 * i + 1]) : left)),
        );
    }
    return level[0];
}

/** Checks that `data` is leaf number `index` of a tree of `size` leaves. `path` has the siblings, lowest first. */
async function checkLeaf(what, data, index, size, path, root) {
    need(index < size, `${what}: there is no such leaf in the tree`);
    let [at, last, node, used] = [index, size - 1n, await leafHash(data), 0];
    while (last > 0n) {
        // The last node of an odd number has no sibling on this level.
        if (at % 2n === 1n || at < last) {
            need(used < path.length, `${what}: the path is too short`);
            const sibling = path[used];
            node = at % 2n === 1n ? await nodeHash(sibling, node) : await nodeHash(node, sibling);
            used += 1;
        }
        [at, last] = [at / 2n, last / 2n];
    }
    need(used === path.length, `${what}: the path is too long`);
    need(node === root, `${what}: the path does not lead to the root in the block`);
}

/** Checks that the first leaves of the newer tree are the older tree: RFC 9162, 2.1.4.2. */
async function checkConsistency(older, newer, given) {
    if (older.height === 0n) {
        need(given.length === 0 && older.mixHash === EMPTY_ROOT, "history: nothing is before block 0");
        return;
    }
    // A whole tree is a node of the newer one, and the path does not repeat it.
    const isWhole = (older.height & (older.height - 1n)) === 0n;
    const path = isWhole ? [older.mixHash, ...given] : given;
    need(path.length > 0, "history: the consistency is too short");
    let [olderLast, newerLast] = [older.height - 1n, newer.height - 1n];
    while (olderLast % 2n === 1n) [olderLast, newerLast] = [olderLast / 2n, newerLast / 2n];
    let [old, now] = [path[0], path[0]];
    for (const sibling of path.slice(1)) {
        need(newerLast > 0n, "history: the consistency is too long");
        if (olderLast % 2n === 1n || olderLast === newerLast) {
            [old, now] = [await nodeHash(sibling, old), await nodeHash(sibling, now)];
            while (olderLast % 2n === 0n && olderLast > 0n) [olderLast, newerLast] = [olderLast / 2n, newerLast / 2n];
        } else {
            now = await nodeHash(now, sibling);
        }
        [olderLast, newerLast] = [olderLast / 2n, newerLast / 2n];
    }
    need(newerLast === 0n, "history: the consistency is too short");
    need(old === older.mixHash && now === newer.mixHash, "history: the newer one begins otherwise");
}

// ---------------------------------------------------------------------------------------------------------- RLP
// Ethereum's encoding: of strings of bytes, and of lists of them. A list in a list is an access list, and empty.

function encodeRlp(item) {
    const isString = typeof item === "string";
    const body = isString ? item : item.map(encodeRlp).join("");
    const size = sizeOf(body);
    if (isString && size === 1 && body < "80") return body;
    const short = isString ? 0x80 : 0xc0;
    if (size < 56) return fixed(short + size, 1) + body;
    const digits = size.toString(16);
    const length = digits.length % 2 ? `0${digits}` : digits;
    return fixed(short + 55 + sizeOf(length), 1) + length + body;
}

/** The items of a list that is all of `raw`. There is one way to write them: they are written again to compare. */
function readRlpList(raw) {
    const numberAt = (from, to) => Number.parseInt(raw.slice(from, to), 16);
    /** Where the content of the item at `at` begins, and its size in bytes. */
    const contentOf = (at) => {
        const first = numberAt(at, at + 2);
        if (first < 0x80) return [at, 1];
        const size = first & 0x3f;
        if (size < 56) return [at + 2, size];
        const start = at + 2 + 2 * (size - 55);
        return [start, numberAt(at + 2, start)];
    };
    need(raw >= "c0", "a header or a payment is not a list in RLP");
    const items = [];
    let [at] = contentOf(0);
    while (at < raw.length) {
        const [start, size] = contentOf(at);
        items.push(numberAt(at, at + 2) < 0xc0 ? raw.slice(start, start + 2 * size) : []);
        at = start + 2 * size;
    }
    need(encodeRlp(items) === raw, "a header or a payment is not canonical RLP");
    return items;
}

/** A string of so many bytes. */
function bytesItem(item, size) {
    need(typeof item === "string" && sizeOf(item) === size, "a field of a header or a payment has another size");
    return item;
}

/** An integer has no leading zeros; 0 is the empty string. */
function uintItem(item, mostBytes = 32) {
    const isUint = typeof item === "string" && sizeOf(item) <= mostBytes && !item.startsWith("00");
    need(isUint, "a field of a header or a payment is no integer");
    return integer(item);
}

// --------------------------------------------------------------------------------------------- How a file is read
// By rules that are narrower than JSON's own, so that verifiers in all languages read the same.

const PLAIN = new Set("0123456789:, \t\n\r");

function readJson(text) {
    need(text.length <= MOST_FILE_BYTES, `the file has more than ${MOST_FILE_BYTES} bytes`);
    let [depth, isInString] = [0, false];
    for (const character of text) {
        if (isInString) {
            need(character >= " " && character <= "~" && character !== "\\", "a string has a sign that no proof has");
            isInString = character !== '"';
        } else if (character === '"') {
            isInString = true;
        } else if (character === "[" || character === "{") {
            depth += 1;
            need(depth <= MOST_DEPTH, `the file is nested more than ${MOST_DEPTH} deep`);
        } else if (character === "]" || character === "}") {
            depth -= 1;
        } else {
            need(PLAIN.has(character), "the file has a sign that no proof has");
        }
    }
    // Of a key that is given twice, the last one counts.
    return readObject({ file: JSON.parse(text) }, "file");
}

/** Whether each is above the one before it. */
const ascend = (numbers) => numbers.every((number, i) => i === 0 || number > numbers[i - 1]);

const has = (holder, key) => Object.hasOwn(holder, key);

/** Only what the object has itself: a file may name a key like a prototype's. */
function member(holder, key) {
    need(has(holder, key), `${key} is missing`);
    return holder[key];
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function readObject(holder, key) {
    const value = member(holder, key);
    need(isObject(value), `${key} is not an object`);
    return value;
}

function readList(holder, key, most = Infinity) {
    const rows = member(holder, key);
    need(Array.isArray(rows) && rows.length <= most, `${key} is not a list, or has more than ${most} entries`);
    return rows;
}

function readObjects(holder, key, most = Infinity) {
    const rows = readList(holder, key, most);
    need(rows.every(isObject), `${key} is not a list of objects`);
    return rows;
}

function readInteger(holder, key) {
    const number = member(holder, key);
    need(Number.isSafeInteger(number) && number >= 0, `${key} is not an integer from 0 to 2^53-1`);
    return BigInt(number);
}

function unhex(value, key, size) {
    // The length first: a regular expression takes a stack for what is long.
    const fits = typeof value === "string" && value.length <= 2 + 2 * MOST_BYTES;
    need(fits && /^0x([0-9a-f]{2})*$/.test(value), `${key} is not bytes, or has more than ${MOST_BYTES}`);
    const hex = value.slice(2);
    need(size === undefined || sizeOf(hex) === size, `${key} has ${sizeOf(hex)} bytes, not ${size}`);
    return hex;
}

const readBytes = (holder, key, size) => unhex(member(holder, key), key, size);
const readPath = (holder, key) => readList(holder, key, MOST_HASHES).map((each) => unhex(each, key, 32));

// ------------------------------------------------------------------------------------------------------- Genesis

const DEV_SIGNER = "61e3d5fd875f007dd386d790641c8c3fb160ba020970ca733f8857a89689445f"; // Everybody has its secret half.
const hasDevSigner = (validators) => validators.some(({ publicKey }) => publicKey === DEV_SIGNER);

/** Any JSON. JavaScript cuts large integers, so they are read a second time as text, each as it is written. */
function readAnyJson(bytes) {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
    const quoted = text.replace(tokens, (token) => (token.startsWith('"') ? token : `"${token}"`));
    return { fields: JSON.parse(text), exact: JSON.parse(quoted) };
}

/** An integer, from what JSON has there and how it is written. */
function exactInteger(value, digits, least, most, what) {
    const number = typeof value === "number" && /^\d+$/.test(digits) ? BigInt(digits) : -1n;
    need(number >= least && number <= most, `${what} in genesis.json is no integer from ${least} to ${most}`);
    return number;
}

function genesisKey(text) {
    need(typeof text === "string" && /^[A-Za-z0-9+/]{43}=$/.test(text), "a key in genesis.json is not base64");
    return hexOf(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)));
}

/** What each account has from the start. */
function genesisAlloc(given, exact) {
    need(isObject(given), "alloc in genesis.json is not an object");
    const balances = new Map();
    for (const [address, balance] of Object.entries(given)) {
        need(/^0x[0-9a-fA-F]{40}$/.test(address), "alloc in genesis.json has a key that is no address");
        const key = address.slice(2).toLowerCase();
        need(!balances.has(key), "alloc in genesis.json has an address twice");
        balances.set(key, exactInteger(balance, exact[address], 0n, MOST_BALANCE, "a balance"));
    }
    return balances;
}

/** genesis.json may be any JSON. The digest is of its bytes, as `cairn init` writes them. */
export async function readGenesis(bytes) {
    const { fields, exact } = readAnyJson(bytes);
    need(isObject(fields), "genesis.json is not an object");
    const isAlone = has(fields, "signer");
    need(isAlone !== has(fields, "validators"), "genesis.json must name a signer or validators, one of them");
    // A node that makes its blocks alone counts as one validator with the power 1.
    const rows = isAlone
        ? [{ publicKey: genesisKey(fields.signer), power: 1n }]
        : readObjects(fields, "validators", MOST_VALIDATORS).map((row, i) => ({
              publicKey: genesisKey(row.publicKey),
              power: exactInteger(row.power, exact.validators[i].power, 1n, MOST_INTEGER, "a power"),
          }));
    const validators = await inOrder(rows);
    await checkSet(validators);
    const chainId = exactInteger(fields.chainId, exact.chainId, 1n, MOST_CHAIN_ID, "chainId");
    const digest = keccak(bytes);
    const alloc = genesisAlloc(fields.alloc, exact.alloc);
    return {
        digest,
        chainId,
        validators,
        alloc,
        // Coins are neither minted nor burnt, but on a dev chain.
        supply: [...alloc.values()].reduce((sum, balance) => sum + balance, 0n),
        engineId: ascii(`cairn-${chainId}-${digest.slice(0, 24)}`), // What every signature covers.
        isDev: isAlone && hasDevSigner(validators), // So balances may be set by hand.
        everybodyHasTheKey: hasDevSigner(validators),
    };
}

// ----------------------------------------------------------------------------------------------------- Who signs
// CometBFT's headers and votes, in protobuf.

function varint(number) {
    let [digits, rest] = ["", number];
    while (rest > 127n) {
        digits += fixed((rest & 127n) | 128n, 1);
        rest >>= 7n;
    }
    return digits + fixed(rest, 1);
}

const field = (tag, content) => tag + varint(BigInt(sizeOf(content))) + content;
/** What is 0 is left out. */
const numberField = (tag, number) => (number > 0n ? tag + varint(number) : "");
const littleEndian = (number) => reversed(fixed(number, 8));

/** CometBFT's order: the highest power first, then the lowest address. */
async function inOrder(validators) {
    const hashes = await Promise.all(validators.map(({ publicKey }) => sha256(publicKey)));
    const ranked = validators.map((each, i) => ({ each, address: hashes[i].slice(0, 40) }));
    ranked.sort((a, b) => {
        if (a.each.power !== b.each.power) return a.each.power > b.each.power ? -1 : 1;
        return a.address < b.address ? -1 : 1;
    });
    return ranked.map(({ each }) => each);
}

/** What holds for each set of validators, that of genesis and that after a step. */
async function checkSet(validators) {
    const count = validators.length;
    need(count > 0 && count <= MOST_VALIDATORS, `a set has no validators, or more than ${MOST_VALIDATORS}`);
    need(new Set(validators.map(({ publicKey }) => publicKey)).size === count, "a validator is in a set twice");
    need(validators.every((each) => each.power > 0n && each.power <= MOST_INTEGER), "a validator has no such power");
    need(validators.every(({ publicKey }) => isUsablePoint(publicKey)), "a validator's key is of small order");
    const ordered = await inOrder(validators);
    need(validators.every((each, i) => each === ordered[i]), "validators are not in CometBFT's order");
}

function setHash(validators) {
    return merkleRoot(validators.map(({ publicKey, power: weight }) => `0a220a20${publicKey}10${varint(weight)}`));
}

/** A precommit, as it is signed. */
function voteOf(part, row, height, headerHash, engineId) {
    const [round, parts] = [readInteger(part, "round"), readObject(part, "parts")];
    const partsHash = readBytes(parts, "hash");
    const partsId = numberField("08", readInteger(parts, "total")) + (partsHash && field("12", partsHash));
    const atRound = round > 0n ? `19${littleEndian(round)}` : "";
    const block = field("22", `0a20${headerHash}${field("12", partsId)}`);
    const time = numberField("08", readInteger(row, "seconds")) + numberField("10", readInteger(row, "nanos"));
    return field("", `080211${littleEndian(height)}${atRound}${block}${field("2a", time)}${field("32", engineId)}`);
}

/** Checks a header of CometBFT's: builds the leaves that matter, and compares. The others may be anything. */
async function checkSigned(part, validators, { engineId, digest }) {
    const leaves = readList(part, "header", 14).map((leaf) => unhex(leaf, "a leaf of a signed header"));
    need(leaves.length === 14, "a signed header does not have 14 leaves");
    need(
        leaves[1] === field("0a", engineId),
        `signed for another chain, or another genesis.json than this one of 0x${digest}`,
    );
    const digits = bytesOf(leaves[2].slice(2, 20));
    const height = digits.reduceRight((sum, byte) => (sum << 7n) | BigInt(byte & 127), 0n);
    // Written again to compare, so that only the shortest varint passes.
    need(height > 0n && height < 2n ** 63n && leaves[2] === `08${varint(height)}`, "a signed header has no height");
    need(leaves[7] === `0a20${await setHash(validators)}`, "signed by other validators");
    const rows = readObjects(part, "signatures", MOST_VALIDATORS);
    const numbers = rows.map((row) => readInteger(row, "validator"));
    need(ascend(numbers), "the signatures are not in order, or one is there twice");
    need(numbers.every((number) => number < BigInt(validators.length)), "a signature is nobody's");
    const signers = numbers.map((number) => validators[Number(number)]);
    const headerHash = await merkleRoot(leaves);
    for (const [i, { publicKey }] of signers.entries()) {
        const vote = voteOf(part, rows[i], height, headerHash, engineId);
        // One wrong signature refuses the file, even if the others suffice.
        const isRight = await isSigned(publicKey, vote, readBytes(rows[i], "signature", 64));
        need(isRight, `the signature of 0x${publicKey} is wrong`);
    }
    const [signed, total] = [sumOfPower(signers), sumOfPower(validators)];
    need(3n * signed > 2n * total, `only ${signed} of ${total} of the voting power signed`);
    return { leaves, height, signers, power: signed, of: total };
}

const sumOfPower = (validators) => validators.reduce((sum, each) => sum + each.power, 0n);

/** Who signed the head. Each set of validators signs the next one, from genesis on; the last one, the head. */
async function checkCertificate(certificate, genesis, head) {
    let { validators, everybodyHasTheKey } = genesis;
    const heights = [];
    const steps = readObjects(certificate, "steps");
    for (const step of steps) {
        const { leaves, height } = await checkSigned(readObject(step, "signed"), validators, genesis);
        heights.push(height);
        validators = readObjects(step, "validators", MOST_VALIDATORS).map((row) => ({
            publicKey: readBytes(row, "publicKey", 32),
            power: readInteger(row, "power"),
        }));
        await checkSet(validators);
        need(leaves[8] === `0a20${await setHash(validators)}`, "the next validators are not the signed ones");
        // Else every header that they sign would be a step.
        need(leaves[7] !== leaves[8], "a step changes nothing");
        everybodyHasTheKey ||= hasDevSigner(validators);
    }
    const signed = await checkSigned(readObject(certificate, "signed"), validators, genesis);
    need(ascend([...heights, signed.height]), "the heights of steps and of the signed header do not ascend");
    need(signed.leaves[10] === `0a20${head.hash}`, "the validators signed another block");
    return {
        by: signed.signers.map(({ publicKey }) => publicKey),
        validators: validators.length,
        power: signed.power,
        of: signed.of,
        steps: steps.length,
        everybodyHasTheKey,
    };
}

// ------------------------------------------------------------------------------------------------------- Headers
// What Ethereum has and Cairn has not (uncles, logs, difficulty, nonce) is always the same.

const NO_UNCLES = keccak256("c0");

function readHeader(header, { chainId }) {
    const items = readRlpList(header);
    need(items.length === 16, "a header does not have sixteen fields");
    const isEmpty =
        bytesItem(items[1], 32) === NO_UNCLES &&
        bytesItem(items[6], 256) === "00".repeat(256) &&
        bytesItem(items[7], 0) === "" &&
        bytesItem(items[14], 8) === "00".repeat(8);
    need(isEmpty, "an unused field of a header is set");
    // cairn, the version of the format, the chain id, and how many transactions there are.
    const extra = bytesItem(items[12], 18);
    need(extra.startsWith(`${ascii("cairn")}03${fixed(chainId, 8)}`), "a header is of another chain or format");
    const block = {
        header,
        hash: keccak256(header),
        previousHash: bytesItem(items[0], 32),
        proposer: bytesItem(items[2], 20),
        stateRoot: bytesItem(items[3], 32),
        transactionsRoot: bytesItem(items[4], 32),
        receiptsRoot: bytesItem(items[5], 32),
        height: uintItem(items[8], 8),
        gasLimit: uintItem(items[9], 8),
        gasUsed: uintItem(items[10], 8),
        time: uintItem(items[11], 8),
        mixHash: bytesItem(items[13], 32),
        baseFeePerGas: uintItem(items[15], 32),
        transactionCount: integer(extra.slice(28)),
    };
    need(block.height > 0n || block.transactionCount === 0n, "block 0 has transactions");
    return block;
}

/** Checks that `older` is before `newer`, or is the same block, with the same bytes and an empty path. */
async function checkAncestor(what, older, newer, path) {
    if (older.header !== newer.header || path.length > 0) {
        await checkLeaf(what, older.hash, older.height, newer.height, path, newer.mixHash);
    }
}

/** The head itself, or an ancestor of it. */
async function checkBlock({ genesis, head }, part) {
    const block = readHeader(readBytes(part, "header"), genesis);
    await checkAncestor("block", block, head, readPath(part, "history"));
    return block;
}

// ------------------------------------------------------------------------------------------------------ Payments

async function checkPayment(proof, part, block) {
    const [raw, index, path] = [readBytes(part, "transaction"), readInteger(part, "index"), readPath(part, "path")];
    const hash = keccak256(raw);
    await checkLeaf("payment", hash, index, block.transactionCount, path, block.transactionsRoot);
    const payment = readTransaction(raw, proof.genesis.chainId, block.baseFeePerGas);
    checkSupply(proof, payment.value + payment.fee, "what a payment costs");
    return { ...payment, hash, index };
}

/** A transfer of Ethereum's, legacy or of type 1 or 2, and who signed it. */
function readTransaction(raw, chainId, baseFee) {
    const type = raw.startsWith("01") ? 1 : raw.startsWith("02") ? 2 : 0;
    const fields = readRlpList(type ? raw.slice(2) : raw);
    need(fields.length === [9, 11, 12][type], "a payment does not have the fields of one");
    const [body, [v, r, s]] = [fields.slice(0, -3), fields.slice(-3)];
    if (type) {
        need(uintItem(body[0], 8) === chainId, "a payment is for another chain");
        need(Array.isArray(body.at(-1)), "a payment has no access list"); // `readRlpList` takes an empty one only.
    }
    const chain = chainId.toString(16);
    const legacy = [...body, chain.length % 2 ? `0${chain}` : chain, "", ""];
    const digest = keccak256(type ? raw.slice(0, 2) + encodeRlp(body) : encodeRlp(legacy));
    const parity = type ? uintItem(v, 1) : uintItem(v, 8) - 35n - 2n * chainId;
    // A legacy payment has one price, as has type 1; type 2 has a tip and the most that it pays.
    const rest = type ? body.slice(1, -1) : body;
    const [nonce, prices] = [uintItem(rest[0], 8), rest.slice(1, -4).map((price) => uintItem(price))];
    const [limit, to, amount, data] = rest.slice(-4);
    const [maxTip, maxFee] = [prices[0], prices.at(-1)];
    need(maxTip <= maxFee, "the tip of a payment is above the most that it pays");
    const isData = typeof data === "string" && sizeOf(data) <= MOST_DATA_BYTES;
    need(isData, `the data of a payment has more than ${MOST_DATA_BYTES} bytes`);
    const gasPrice = type === 2 && baseFee + maxTip < maxFee ? baseFee + maxTip : maxFee;
    const used = bytesOf(data).reduce((sum, byte) => sum + (byte ? 16n : 4n), 21000n);
    return {
        from: recover(digest, uintItem(r), uintItem(s), parity),
        to: bytesItem(to, 20),
        value: uintItem(amount),
        data,
        fee: gasPrice * used,
        nonce,
        type,
        gas: uintItem(limit, 8),
        gasPrice,
        maxFee,
        maxTip,
    };
}

// ------------------------------------------------------------------------------------------------------ Accounts
// A touch is the height of the block that touched an account last, and what the account has held since.

const NEVER = -1n;
const NOTHING = { height: NEVER, balance: 0n, nonce: 0n };
const readTouch = (height, held) => ({ height, balance: integer(held.slice(0, 64)), nonce: integer(held.slice(64)) });
const isSame = (one, other) =>
    one.height === other.height && one.balance === other.balance && one.nonce === other.nonce;

/** Whether there are so many coins. Nobody's word is enough for more. */
function checkSupply({ genesis }, amount, what) {
    const isPossible = genesis.isDev || amount <= genesis.supply;
    need(isPossible, `${what} is above ${genesis.supply} wei, all that alloc of genesis.json gives`);
}

/**
 * What genesis decides: an account begins with what `alloc` gives, in block 0, or with nothing, and never holds more
 * than all coins.
 */
function checkHolding(proof, address, touch) {
    checkSupply(proof, touch.balance, "a balance");
    const given = proof.genesis.alloc.get(address) ?? 0n;
    if (touch.height === NEVER) {
        need(given === 0n, "alloc of genesis.json gives the account coins, and no block touched it");
        need(isSame(touch, NOTHING), "the account held something before any block touched it");
    } else if (touch.height === 0n) {
        need(given > 0n, "block 0 touched an account to which alloc of genesis.json gives nothing");
        const isGiven = touch.balance === given && touch.nonce === 0n;
        need(isGiven, "block 0 gives the account something else than alloc of genesis.json");
    }
}

/** What a block did to an account. */
async function checkChange(proof, part, address) {
    const block = await checkBlock(proof, readObject(part, "block"));
    const [leaf, path] = [readBytes(part, "leaf", 108), readPath(part, "path")];
    await checkLeaf("change", leaf, readInteger(part, "index"), readInteger(part, "count"), path, block.receiptsRoot);
    const [owner, touched, before, after] = /^(.{40})(.{16})(.{80})(.{80})$/.exec(leaf).slice(1);
    need(owner === address, "a change is of another account");
    const change = {
        block,
        before: readTouch(touched === "f".repeat(16) ? NEVER : integer(touched), before),
        after: readTouch(block.height, after),
    };
    if (block.height > 0n) checkHolding(proof, address, change.before);
    else need(isSame(change.before, NOTHING), "an account held something before block 0");
    checkHolding(proof, address, change.after);
    return change;
}

/** The account under the head: its own leaf, or the one that shows that there is none. */
async function checkState(proof, address) {
    const part = readObject(proof.file, "state");
    const [leaf, number, path] = [readBytes(part, "leaf", 88), readInteger(part, "number"), readPath(part, "path")];
    need(number > 0n, "leaf 0 is the record of the validators, and no account");
    await checkLeaf("account", leaf, number, readInteger(part, "size"), path, proof.head.stateRoot);
    const [owner, held, touched, next] = /^(.{40})(.{80})(.{16})(.{40})$/.exec(leaf).slice(1);
    let touch = NOTHING;
    if (owner === address) {
        touch = readTouch(integer(touched), held);
    } else {
        // Accounts form a circle in the order of addresses: there is none between one and the next.
        const [isAbove, isBelow] = [owner < address, address < next];
        need(owner < next ? isAbove && isBelow : isAbove || isBelow, "the leaf says nothing of this account");
    }
    checkHolding(proof, address, touch);
    return touch;
}

/** The last touch up to a height, shown by the state, or by a later change, which names the touch before it. */
async function checkLastTouch(proof, address, height, later) {
    const { file } = proof;
    need(has(file, "state") !== has(file, later), `there must be one of state and ${later}`);
    if (has(file, "state")) return checkState(proof, address);
    const { block, before } = await checkChange(proof, readObject(file, later), address);
    need(block.height > height, `${later} is not above the height`);
    return before;
}

// ------------------------------------------------------------------------------------------- What each file proves

async function checkAccount(proof) {
    const { file, head } = proof;
    const [address, height] = [readBytes(file, "address", 20), readInteger(file, "height")];
    need(height <= head.height, "the height is above the signed block");
    const touch = await checkLastTouch(proof, address, height, "change");
    need(touch.height <= height, "the account was touched after that height");
    return { address, height, exists: touch.height !== NEVER, balance: touch.balance, nonce: touch.nonce };
}

async function checkStatement(proof) {
    const { file, head } = proof;
    const [address, from, to] = [readBytes(file, "address", 20), readInteger(file, "from"), readInteger(file, "to")];
    need(from <= to && to <= head.height, "from, to and the signed block are not in order");
    const rows = readObjects(file, "changes");
    const changes = await Promise.all(rows.map((row) => checkChange(proof, row, address)));
    const heights = changes.map(({ block }) => block.height);
    need(ascend(heights), "changes are not in order");
    need(heights.every((height) => height >= from && height <= to), "a change is not within from and to");
    // Each change names the touch before it, and the end names the last: so none is left out.
    const end = await checkLastTouch(proof, address, to, "next");
    const links = [...changes.map(({ before }) => before), end];
    need(links[0].height < from, "a change before the first one is left out");
    const isLinked = changes.every(({ after }, i) => isSame(after, links[i + 1]));
    need(isLinked, "a change is left out, or does not follow");
    const entries = await Promise.all(changes.map((change, i) => checkEntry(proof, rows[i], change, address)));
    const holding = ({ balance, nonce }) => ({ balance, nonce });
    const ends = await checkEnds(proof, from, to);
    return { address, from, to, opening: holding(links[0]), closing: holding(end), ends, entries };
}

/** Blocks at the ends of a statement and beside them, whose times show of which days it is. */
async function checkEnds(proof, from, to) {
    const rows = has(proof.file, "ends") ? readObjects(proof.file, "ends") : [];
    const blocks = await Promise.all(rows.map((row) => checkBlock(proof, row)));
    const heights = blocks.map(({ height }) => height);
    need(ascend(heights), "the blocks of ends are not in order");
    const known = [from - 1n, from, to, to + 1n];
    need(heights.every((height) => known.includes(height)), "a block of ends is at neither end");
    return blocks;
}

/** A change, explained by payments: those that the account sent, and as much as it received. */
async function checkEntry(proof, part, { block, before, after }, address) {
    const rows = readObjects(part, "payments");
    const payments = await Promise.all(rows.map((row) => checkPayment(proof, row, block)));
    need(ascend(payments.map(({ index }) => index)), "the payments are not in order");
    let { balance, nonce } = before;
    for (const payment of payments) {
        need(address === payment.from || address === payment.to, "a payment is between others");
        if (payment.from === address) {
            need(payment.nonce === nonce, "a payment is left out: the nonces do not follow");
            [balance, nonce] = [balance - payment.value - payment.fee, nonce + 1n];
        }
        if (payment.to === address) balance += payment.value;
    }
    need(nonce === after.nonce, "a payment is left out: the nonce changed by more");
    const rest = after.balance - balance;
    checkSupply(proof, rest, "what no payment explains");
    checkFees(rest, payments, block, address);
    const source = rest === 0n ? {} : { [sourceOf(proof, block)]: rest };
    return { height: block.height, time: block.time, balance: after.balance, nonce, payments, ...source };
}

/** In a block with transactions, only its proposer gets more than payments: the fees of all of them. */
function checkFees(rest, payments, block, address) {
    if (block.transactionCount === 0n) return;
    const wrong = "the payments do not add up to the change of the account";
    if (address !== block.proposer) {
        need(rest === 0n, wrong);
        return;
    }
    const listed = payments.reduce((sum, payment) => sum + payment.fee, 0n);
    need(rest === listed || (rest > listed && BigInt(payments.length) < block.transactionCount), wrong);
}

/** Where money comes from that no payment brought, or goes to. There are three places, and no other. */
function sourceOf(proof, block) {
    if (block.height === 0n) return "givenByGenesis"; // `checkHolding` has compared it.
    if (block.transactionCount > 0n) return "feesOfTheBlock";
    need(proof.genesis.isDev, "a balance changed without a payment, which only a dev chain may do");
    proof.cautions.add("balances were set by hand");
    return "setByHand";
}

/** The newer history begins with the older one. */
async function checkHistory(proof) {
    const { file, genesis } = proof;
    const first = readHeader(readBytes(file, "first"), genesis);
    const second = await checkBlock(proof, readObject(file, "second"));
    const [inclusion, consistency] = [readPath(file, "inclusion"), readPath(file, "consistency")];
    await checkLeaf("first block", first.hash, first.height, second.height, inclusion, second.mixHash);
    await checkConsistency(first, second, consistency);
    return { first, second };
}

const KINDS = {
    "cairn-finality-1": async (proof) => ({ block: await checkBlock(proof, readObject(proof.file, "block")) }),
    "cairn-receipt-1": async (proof) => {
        const block = await checkBlock(proof, readObject(proof.file, "block"));
        return { block, payment: await checkPayment(proof, readObject(proof.file, "payment"), block) };
    },
    "cairn-account-1": checkAccount,
    "cairn-statement-1": checkStatement,
    "cairn-history-1": checkHistory,
};

/** The head and its descendants, all checked. Throws unless the witness, if there is one, has signed one. */
async function checkDescendants({ file, genesis, head }, witness) {
    const blocks = [head];
    let isWitnessed = witness === undefined;
    for (const part of has(file, "descendants") ? readObjects(file, "descendants", MOST_DESCENDANTS) : []) {
        const block = readHeader(readBytes(part, "header"), genesis);
        await checkAncestor("descendant", head, block, readPath(part, "history"));
        blocks.push(block);
        const message = `${ascii("cairn witness 1")}00${genesis.digest}${fixed(block.height, 8)}${block.hash}`;
        for (const row of readObjects(part, "witnesses", MOST_WITNESSES)) {
            const [key, signature] = [readBytes(row, "publicKey", 32), readBytes(row, "signature", 64)];
            // A wrong one counts for nothing, but refuses nothing: whoever passes a file on may add any.
            if (!isWitnessed && `0x${key}` === witness) isWitnessed = await isSigned(key, message, signature);
        }
    }
    need(isWitnessed, "the witness did not sign a block of the file");
    return blocks;
}

async function report(given, fileText, at, witness) {
    const genesis = given instanceof Uint8Array ? await readGenesis(given) : given;
    const file = readJson(fileText);
    const format = member(file, "format");
    need(typeof format === "string" && has(KINDS, format), "the file is of no known format");
    const certificate = readObject(file, "certificate");
    const head = readHeader(readBytes(certificate, "header"), genesis);
    const proof = { genesis, file, head, cautions: new Set() };
    const blocks = await checkDescendants(proof, witness?.toLowerCase());
    const names = blocks.map(({ height, hash }) => `${height}:0x${hash}`);
    need(at === undefined || names.includes(at.toLowerCase()), "the trusted block is not in the file");
    const signed =
        at === undefined ? await checkCertificate(certificate, genesis, head) : { by: "not looked at: --at" };
    if (signed.everybodyHasTheKey) proof.cautions.add("everybody has the key of one who signs");
    const proven = await KINDS[format](proof);
    const chain = { id: genesis.chainId, genesis: genesis.digest };
    return { kind: format.slice(6, -2), ...proven, head, signed, chain, cautions: [...proof.cautions] };
}

/** What the file proves, with the bytes of genesis.json, or what `readGenesis` made of them. */
export async function checkFile(genesis, fileText, { at, witness } = {}) {
    need(globalThis.crypto?.subtle, "browsers check signatures only on pages from https or localhost");
    try {
        return await report(genesis, fileText, at, witness);
    } catch (failure) {
        throw failure instanceof NotProven ? failure : new NotProven(`it cannot be read: ${failure}`);
    }
}

// --------------------------------------------------------------------------------------------------- The command

/** For people, bytes begin with 0x, and of a block there is what names it. */
function shown(_, value) {
    if (value?.header) return { height: value.height, time: value.time, hash: value.hash };
    if (typeof value === "bigint") return value.toString();
    return typeof value === "string" && /^[0-9a-f]*$/.test(value) ? `0x${value}` : value;
}

/** What is printed first: whether it is a proof. */
function headline({ cautions, signed }) {
    if (cautions.length > 0) return `VALID, BUT NO PROOF: ${cautions.join("; ")}`;
    if (signed.power === undefined) return "PROVEN by the block that you trust: no validator's signature was looked at";
    return "PROVEN";
}

async function main({ readFileSync, statSync }, { parseArgs }) {
    const text = { type: "string" };
    try {
        const { values, positionals } = parseArgs({ allowPositionals: true, options: { at: text, witness: text } });
        need(positionals.length === 2, "usage: verify.mjs GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]");
        const [genesis, file] = positionals;
        need(statSync(file).size <= MOST_FILE_BYTES, `the file has more than ${MOST_FILE_BYTES} bytes`);
        const found = await checkFile(readFileSync(genesis), readFileSync(file, "latin1"), values);
        // Integers of any size are written without quotes.
        console.log(`${headline(found)}\n${JSON.stringify(found, shown, 2).replace(/"(\d+)"/g, "$1")}`);
    } catch (failure) {
        console.log(`NOT PROVEN: ${failure.message}`);
        process.exitCode = 1;
    }
}

if (globalThis.process?.versions?.node) {
    const fs = await import("node:fs");
    if (process.argv[1] && import.meta.url === new URL(fs.realpathSync(process.argv[1]), "file:").href) {
        process.removeAllListeners("warning"); // Node.js 20 calls Ed25519 in WebCrypto experimental.
        process.stdout.on("error", () => {}); // Who reads may stop early.
        await main(fs, await import("node:util"));
    }
}
