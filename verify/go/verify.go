// Checks a proof file of Cairn with genesis.json alone: no node, no network, nothing but Go's standard library.
//
//	go run verify.go GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]
//
// Its first line is PROVEN, or VALID, BUT NO PROOF with the reason; what holds follows, and it exits with 0. Or it prints
// NOT PROVEN with the reason and exits with 1. It was written from
// docs/formats.md alone, which has every rule. For tests, --lines reads a request a line from standard input,
// {"genesis": text, "file": text, "at"?: text, "witness"?: text}, where a character of the texts is a byte (Latin-1),
// and answers each with a line: {"valid": true}, or {"valid": false, "reason": text}.
package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"math/bits"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits, the same in all verifiers, so that a file cannot keep one of them busy and pass another.
const (
	mostFileBytes   = 1 << 28
	mostBytes       = 1024 // where the page names no size
	mostHashes      = 64   // in a path; no tree is as high
	mostValidators  = 1000
	mostDescendants = 64
	mostWitnesses   = 16 // of each descendant
)

// refusal is the reason why a file proves nothing. Checks end with refuse, and Check catches it.
type refusal string

func refuse(format string, values ...any) { panic(refusal(fmt.Sprintf(format, values...))) }

func need(holds bool, format string, values ...any) {
	if !holds {
		refuse(format, values...)
	}
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// ---------------------------------------------------------------------------------------------- keccak-256

func keccak(data []byte) []byte {
	const rate = 136
	padded := append(slices.Clone(data), 1)
	padded = append(padded, make([]byte, (rate-len(padded)%rate)%rate)...)
	padded[len(padded)-1] |= 0x80
	var a [25]uint64
	for ; len(padded) > 0; padded = padded[rate:] {
		for i := range rate / 8 {
			a[i] ^= binary.LittleEndian.Uint64(padded[8*i:])
		}
		permute(&a)
	}
	hash := make([]byte, 32)
	for i := range 4 {
		binary.LittleEndian.PutUint64(hash[8*i:], a[i])
	}
	return hash
}

// permute is Keccak-f[1600]; lane (x, y) is a[x + 5y]. The constants of iota come from the LFSR of the standard.
func permute(a *[25]uint64) {
	lfsr := byte(1)
	for range 24 {
		var c [5]uint64
		for x := range 5 {
			c[x] = a[x] ^ a[x+5] ^ a[x+10] ^ a[x+15] ^ a[x+20]
		}
		for i := range 25 {
			a[i] ^= c[(i+4)%5] ^ bits.RotateLeft64(c[(i+1)%5], 1)
		}
		x, y, carried := 1, 0, a[1]
		for t := range 24 {
			x, y = y, (2*x+3*y)%5
			a[x+5*y], carried = bits.RotateLeft64(carried, (t+1)*(t+2)/2), a[x+5*y]
		}
		for row := 0; row < 25; row += 5 {
			r := [5]uint64(a[row : row+5])
			for x := range 5 {
				a[row+x] = r[x] ^ ^r[(x+1)%5]&r[(x+2)%5]
			}
		}
		for j := range 7 {
			if lfsr&1 != 0 {
				a[0] ^= 1 << (1<<j - 1)
			}
			carry := lfsr >> 7
			lfsr = lfsr<<1 ^ carry*0x71
		}
	}
}

// ---------------------------------------------------------------------------------------------- secp256k1

func number(digits string) *big.Int {
	n, _ := new(big.Int).SetString(digits, 16)
	return n
}

var (
	prime = number("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f")
	order = number("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141")
	half  = new(big.Int).Rsh(order, 1)
	base  = point{
		number("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"),
		number("483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"),
		big.NewInt(1),
	}
)

// point is one of the curve in Jacobian coordinates; z is 0 at infinity.
type point struct{ x, y, z *big.Int }

func modulo(n *big.Int) *big.Int         { return n.Mod(n, prime) }
func mul(a, b *big.Int) *big.Int         { return modulo(new(big.Int).Mul(a, b)) }
func sub(a, b *big.Int) *big.Int         { return modulo(new(big.Int).Sub(a, b)) }
func times(n int64, a *big.Int) *big.Int { return mul(big.NewInt(n), a) }

func (p point) double() point {
	yy := mul(p.y, p.y)
	s := times(4, mul(p.x, yy))
	m := times(3, mul(p.x, p.x))
	x := sub(mul(m, m), times(2, s))
	return point{x, sub(mul(m, sub(s, x)), times(8, mul(yy, yy))), times(2, mul(p.y, p.z))}
}

func (p point) add(q point) point {
	if p.z.Sign() == 0 {
		return q
	}
	if q.z.Sign() == 0 {
		return p
	}
	pzz, qzz := mul(p.z, p.z), mul(q.z, q.z)
	u, v := mul(p.x, qzz), mul(q.x, pzz)
	s, t := mul(p.y, mul(qzz, q.z)), mul(q.y, mul(pzz, p.z))
	h, r := sub(v, u), sub(t, s)
	if h.Sign() == 0 {
		if r.Sign() == 0 {
			return p.double()
		}
		return point{big.NewInt(1), big.NewInt(1), new(big.Int)}
	}
	hh := mul(h, h)
	hhh, w := mul(h, hh), mul(u, hh)
	x := sub(sub(mul(r, r), hhh), times(2, w))
	return point{x, sub(mul(r, sub(w, x)), mul(s, hhh)), mul(h, mul(p.z, q.z))}
}

func (p point) multiply(n *big.Int) point {
	sum := point{big.NewInt(1), big.NewInt(1), new(big.Int)}
	for i := n.BitLen() - 1; i >= 0; i-- {
		sum = sum.double()
		if n.Bit(i) == 1 {
			sum = sum.add(p)
		}
	}
	return sum
}

// recoverSender gives the address that made this signature of the hash.
func recoverSender(hash []byte, r, s *big.Int, parity uint) []byte {
	need(r.Sign() > 0 && r.Cmp(order) < 0, "a payment's r is out of range")
	need(s.Sign() > 0 && s.Cmp(half) <= 0, "a payment's s is out of range")
	square := modulo(new(big.Int).Add(mul(r, mul(r, r)), big.NewInt(7)))
	y := new(big.Int).ModSqrt(square, prime)
	need(y != nil, "a payment's signature gives no key")
	if y.Bit(0) != parity {
		y = sub(prime, y)
	}
	inverse := new(big.Int).ModInverse(r, order)
	u := new(big.Int).Mul(new(big.Int).Neg(new(big.Int).SetBytes(hash)), inverse)
	v := new(big.Int).Mul(s, inverse)
	key := base.multiply(u.Mod(u, order)).add(point{r, y, big.NewInt(1)}.multiply(v.Mod(v, order)))
	need(key.z.Sign() != 0, "a payment's signature gives no key")
	z := new(big.Int).ModInverse(key.z, prime)
	zz := mul(z, z)
	bytes64 := make([]byte, 64)
	mul(key.x, zz).FillBytes(bytes64[:32])
	mul(key.y, mul(zz, z)).FillBytes(bytes64[32:])
	return keccak(bytes64)[12:]
}

// ---------------------------------------------------------------------------------------------- Ed25519

var (
	edPrime     = number("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed")
	yOfOrder8   = number("05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826")
	smallOrderY = []*big.Int{
		new(big.Int),
		big.NewInt(1),
		new(big.Int).Sub(edPrime, big.NewInt(1)),
		yOfOrder8,
		new(big.Int).Sub(edPrime, yOfOrder8),
	}
)

// usablePoint tells whether the bytes may be a public key or an R: not of small order, and y in its one encoding.
func usablePoint(encoded []byte) bool {
	swapped := slices.Clone(encoded)
	slices.Reverse(swapped)
	swapped[0] &= 0x7f // the highest bit is the parity of x
	y := new(big.Int).SetBytes(swapped)
	isSmall := slices.ContainsFunc(smallOrderY, func(small *big.Int) bool { return small.Cmp(y) == 0 })
	return y.Cmp(edPrime) < 0 && !isSmall
}

func isSigned(key, message, signature []byte) bool {
	return usablePoint(key) && usablePoint(signature[:32]) && ed25519.Verify(key, message, signature)
}

// ---------------------------------------------------------------------------------------------- RLP

// item is a string, or a list of items.
type item struct {
	list   bool
	text   []byte
	within []item
}

// takeItem reads one item in its only valid encoding, and gives what follows it.
func takeItem(data []byte, depth int) (item, []byte) {
	need(len(data) > 0 && depth < 8, "RLP ends early")
	first, data := data[0], data[1:]
	if first < 0x80 {
		return item{text: []byte{first}}, data
	}
	isList := first >= 0xc0
	size := int(first & 0x3f)
	if size > 55 {
		digits := size - 55
		need(len(data) >= digits && data[0] != 0 && digits <= 4, "RLP has a wrong length")
		size = 0
		for _, digit := range data[:digits] {
			size = size<<8 | int(digit)
		}
		need(size > 55, "RLP has a length that is too long")
		data = data[digits:]
	}
	need(size <= len(data), "RLP ends early")
	content, rest := data[:size], data[size:]
	if !isList {
		need(size != 1 || content[0] >= 0x80, "RLP has a byte that is too long")
		return item{text: content}, rest
	}
	found := item{list: true}
	for len(content) > 0 {
		var next item
		next, content = takeItem(content, depth+1)
		found.within = append(found.within, next)
	}
	return found, rest
}

func takeList(data []byte, length int, what string) []item {
	found, rest := takeItem(data, 0)
	need(found.list && len(rest) == 0 && len(found.within) == length, "%s is not a list of %d items", what, length)
	return found.within
}

func (i item) bytes(size int, what string) []byte {
	need(!i.list && len(i.text) == size, "%s does not have %d bytes", what, size)
	return i.text
}

func (i item) integer(most int, what string) *big.Int {
	need(!i.list && len(i.text) <= most, "%s is not an integer of at most %d bytes", what, most)
	need(len(i.text) == 0 || i.text[0] != 0, "%s begins with a zero", what)
	return new(big.Int).SetBytes(i.text)
}

func lengthOf(short, long byte, size int) []byte {
	if size <= 55 {
		return []byte{short + byte(size)}
	}
	digits := big.NewInt(int64(size)).Bytes()
	return append([]byte{long + byte(len(digits))}, digits...)
}

func encode(i item) []byte {
	if i.list {
		var content []byte
		for _, each := range i.within {
			content = append(content, encode(each)...)
		}
		return join(lengthOf(0xc0, 0xf7, len(content)), content)
	}
	if len(i.text) == 1 && i.text[0] < 0x80 {
		return i.text
	}
	return join(lengthOf(0x80, 0xb7, len(i.text)), i.text)
}

func encodeList(items ...item) []byte { return encode(item{list: true, within: items}) }

// ---------------------------------------------------------------------------------------------- Merkle trees

var emptyRoot = number("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421").Bytes()

func sha(parts ...[]byte) []byte {
	hash := sha256.Sum256(join(parts...))
	return hash[:]
}

func leafHash(data []byte) []byte        { return sha([]byte{0}, data) }
func nodeHash(left, right []byte) []byte { return sha([]byte{1}, left, right) }

func root(leaves [][]byte) []byte {
	var level [][]byte
	for _, leaf := range leaves {
		level = append(level, leafHash(leaf))
	}
	for len(level) > 1 {
		var above [][]byte
		for i := 0; i+1 < len(level); i += 2 {
			above = append(above, nodeHash(level[i], level[i+1]))
		}
		if len(level)%2 == 1 {
			above = append(above, level[len(level)-1])
		}
		level = above
	}
	return level[0]
}

func checkPath(data []byte, index, size uint64, path [][]byte, root []byte, what string) {
	need(index < size, "%s: leaf %d is not in a tree of %d", what, index, size)
	node := leafHash(data)
	for last := size - 1; last > 0; index, last = index/2, last/2 {
		if index%2 == 0 && index == last {
			continue
		}
		need(len(path) > 0, "%s: the path is too short", what)
		if index%2 == 1 {
			node = nodeHash(path[0], node)
		} else {
			node = nodeHash(node, path[0])
		}
		path = path[1:]
	}
	need(len(path) == 0, "%s: the path is too long", what)
	need(bytes.Equal(node, root), "%s: the path leads to another root", what)
}

// checkConsistency is 2.1.4.2 of RFC 9162.
func checkConsistency(first, second uint64, firstRoot, secondRoot []byte, path [][]byte) {
	const what = "consistency"
	if first == 0 {
		need(len(path) == 0, "%s: from block 0 it has no hashes", what)
		need(bytes.Equal(firstRoot, emptyRoot), "%s: the history of block 0 is not empty", what)
		return
	}
	need(len(path) > 0, "%s: the path is too short", what)
	if first&(first-1) == 0 {
		path = append([][]byte{firstRoot}, path...)
	}
	fn, sn := first-1, second-1
	for fn%2 == 1 {
		fn, sn = fn/2, sn/2
	}
	fr, sr := path[0], path[0]
	for _, hash := range path[1:] {
		need(sn != 0, "%s: the path is too long", what)
		if fn%2 == 1 || fn == sn {
			fr, sr = nodeHash(hash, fr), nodeHash(hash, sr)
			for fn%2 == 0 && fn != 0 {
				fn, sn = fn/2, sn/2
			}
		} else {
			sr = nodeHash(sr, hash)
		}
		fn, sn = fn/2, sn/2
	}
	need(sn == 0, "%s: the path is too short", what)
	need(bytes.Equal(fr, firstRoot) && bytes.Equal(sr, secondRoot), "%s: the path leads to another root", what)
}

// ---------------------------------------------------------------------------------------------- how a file is read

const most = 1<<53 - 1

// digits is an integer as it stands in the file. The other values are string, []any and map[string]any.
type digits string

type reader struct {
	data  []byte
	depth int
}

func (r *reader) space() byte {
	for len(r.data) > 0 && strings.IndexByte(" \t\n\r", r.data[0]) >= 0 {
		r.data = r.data[1:]
	}
	need(len(r.data) > 0, "the file is not JSON: it ends early")
	return r.data[0]
}

func (r *reader) take(expected byte) {
	need(r.space() == expected, "the file is not JSON: %q instead of %q", r.data[0], expected)
	r.data = r.data[1:]
}

func (r *reader) text() string {
	r.take('"')
	for i, c := range r.data {
		if c == '"' {
			text := string(r.data[:i])
			r.data = r.data[i+1:]
			return text
		}
		need(c >= 0x20 && c < 0x7f && c != '\\', "a string has the byte %#x", c)
	}
	refuse("the file is not JSON: a string does not end")
	return ""
}

// list reads what stands between the brackets, with one call of each for every part.
func (r *reader) list(opens, closes byte, each func()) {
	r.take(opens)
	r.depth++
	need(r.depth <= 32, "lists and objects are more than 32 deep in each other")
	for first := true; r.space() != closes; first = false {
		if !first {
			r.take(',')
		}
		each()
	}
	r.take(closes)
	r.depth--
}

func (r *reader) value() any {
	switch c := r.space(); {
	case c == '"':
		return r.text()
	case c == '[':
		found := []any{}
		r.list('[', ']', func() { found = append(found, r.value()) })
		return found
	case c == '{':
		found := map[string]any{}
		r.list('{', '}', func() {
			r.space()
			key := r.text()
			r.take(':')
			found[key] = r.value()
		})
		return found
	case c >= '0' && c <= '9':
		size := 0
		for size < len(r.data) && r.data[size] >= '0' && r.data[size] <= '9' {
			size++
		}
		need(c != '0' || size == 1, "the file is not JSON: an integer begins with 0")
		found := digits(r.data[:size])
		r.data = r.data[size:]
		return found
	default:
		refuse("the file is not JSON as this format has it: %q", c)
		return nil
	}
}

type object struct {
	values map[string]any
	name   string
}

func asObject(value any, name string) object {
	values, is := value.(map[string]any)
	need(is, "%s is not an object", name)
	return object{values, name}
}

func readFile(data []byte) object {
	need(len(data) <= mostFileBytes, "the file has more than %d bytes", mostFileBytes)
	for _, c := range data {
		need(c < 0x80, "the file has bytes that are not ASCII")
	}
	r := reader{data: append(slices.Clone(data), '\n', '!')} // so that space always finds something at the end
	value := r.value()
	need(r.space() == '!' && len(r.data) == 1, "the file is not JSON: something follows")
	return asObject(value, "the file")
}

func (o object) has(key string) bool {
	_, has := o.values[key]
	return has
}

func (o object) get(key string) any {
	value, has := o.values[key]
	need(has, "%s has no %s", o.name, key)
	return value
}

func (o object) object(key string) object { return asObject(o.get(key), key) }

func (o object) integer(key string) uint64 {
	text, is := o.get(key).(digits)
	need(is, "%s of %s is not an integer", key, o.name)
	n, err := strconv.ParseUint(string(text), 10, 64)
	need(err == nil && n <= most, "%s of %s is above 2^53-1", key, o.name)
	return n
}

func (o object) text(key string) string {
	text, is := o.get(key).(string)
	need(is, "%s of %s is not a string", key, o.name)
	return text
}

func (o object) list(key string) []any {
	list, is := o.get(key).([]any)
	need(is, "%s of %s is not a list", key, o.name)
	return list
}

func (o object) objects(key string) []object {
	var found []object
	for _, each := range o.list(key) {
		found = append(found, asObject(each, "an entry of "+key))
	}
	return found
}

// asBytes reads 0x and hexadecimal digits; any size, if size is below 0.
func asBytes(value any, size int, name string) []byte {
	text, is := value.(string)
	need(is && strings.HasPrefix(text, "0x") && text == strings.ToLower(text), "%s are not bytes", name)
	need(len(text) <= 2+2*mostBytes, "%s has more than %d bytes", name, mostBytes)
	found, err := hex.DecodeString(text[2:])
	need(err == nil, "%s are not bytes", name)
	need(size < 0 || len(found) == size, "%s does not have %d bytes", name, size)
	return found
}

func (o object) bytes(key string, size int) []byte { return asBytes(o.get(key), size, key) }

func (o object) hashes(key string) [][]byte {
	var found [][]byte
	need(len(o.list(key)) <= mostHashes, "%s has more than %d hashes", key, mostHashes)
	for _, each := range o.list(key) {
		found = append(found, asBytes(each, 32, "a hash of "+key))
	}
	return found
}

// ---------------------------------------------------------------------------------------------- headers

type header struct {
	raw, hash                                                       []byte
	proposer, stateRoot, transactionsRoot, changesRoot, historyRoot []byte
	height, timestamp, chainID, transactionCount                    uint64
	price                                                           *big.Int
}

var noUncles = keccak([]byte{0xc0})

func readHeader(raw []byte, chainID uint64) header {
	h := header{raw: raw, hash: keccak(raw)}
	fields := takeList(raw, 16, "a header")
	integer := func(i int, name string) uint64 { return fields[i].integer(8, name).Uint64() }
	fields[0].bytes(32, "parentHash")
	need(bytes.Equal(fields[1].bytes(32, "sha3Uncles"), noUncles), "a header has uncles")
	h.proposer = fields[2].bytes(20, "miner")
	h.stateRoot = fields[3].bytes(32, "stateRoot")
	h.transactionsRoot = fields[4].bytes(32, "transactionsRoot")
	h.changesRoot = fields[5].bytes(32, "receiptsRoot")
	need(zero(fields[6].bytes(256, "logsBloom")), "a header has logs")
	need(integer(7, "difficulty") == 0, "a header has a difficulty")
	h.height = integer(8, "number")
	integer(9, "gasLimit")
	integer(10, "gasUsed")
	h.timestamp = integer(11, "timestamp")
	extra := fields[12].bytes(18, "extraData")
	need(string(extra[:6]) == "cairn\x03", "a header has another version")
	h.chainID = binary.BigEndian.Uint64(extra[6:])
	h.transactionCount = uint64(binary.BigEndian.Uint32(extra[14:]))
	h.historyRoot = fields[13].bytes(32, "mixHash")
	need(zero(fields[14].bytes(8, "nonce")), "a header has a nonce")
	h.price = fields[15].integer(32, "baseFeePerGas")
	need(h.chainID == chainID, "a header is of chain %d", h.chainID)
	need(h.height > 0 || h.transactionCount == 0, "block 0 has transactions")
	return h
}

func zero(data []byte) bool {
	return !slices.ContainsFunc(data, func(c byte) bool { return c != 0 })
}

// ---------------------------------------------------------------------------------------------- transactions

type transaction struct {
	hash, from, to, data []byte
	nonce, value, fee    *big.Int
}

func readTransaction(raw []byte, chainID uint64, baseFee *big.Int) transaction {
	need(len(raw) > 0, "a payment is empty")
	tx := transaction{hash: keccak(raw)}
	chain := new(big.Int).SetUint64(chainID)
	integer := func(i item, name string) *big.Int { return i.integer(32, "a payment's "+name) }
	var fields, signature []item // fields begins with nonce and a price, and ends with gas, to, value and data
	var signed []byte
	var price, parity *big.Int
	kind := raw[0]
	switch {
	case kind >= 0xc0:
		all := takeList(raw, 9, "a payment")
		fields, signature = all[:6], all[6:]
		signed = encodeList(append(slices.Clone(fields), item{text: chain.Bytes()}, item{}, item{})...)
		price = integer(fields[1], "gasPrice")
		parity = integer(signature[0], "v")
		parity.Sub(parity, new(big.Int).Add(big.NewInt(35), new(big.Int).Lsh(chain, 1)))
		need(parity.Sign() == 0 || parity.Cmp(big.NewInt(1)) == 0, "a payment is for another chain")
	case kind == 1 || kind == 2:
		length := 10 + int(kind)
		all := takeList(raw[1:], length, "a payment")
		fields, signature = all[1:length-4], all[length-3:]
		need(integer(all[0], "chainId").Cmp(chain) == 0, "a payment is for another chain")
		access := all[length-4]
		need(access.list && len(access.within) == 0, "a payment has an access list")
		signed = join(raw[:1], encodeList(all[:length-3]...))
		price = integer(fields[1], "price")
		if kind == 2 {
			limit := integer(fields[2], "maxFeePerGas")
			need(price.Cmp(limit) <= 0, "a payment's maxPriorityFeePerGas is above its maxFeePerGas")
			if price.Add(price, baseFee); limit.Cmp(price) < 0 {
				price = limit
			}
		}
		parity = integer(signature[0], "parity")
		need(parity.Cmp(big.NewInt(1)) <= 0, "a payment's parity is above 1")
	default:
		refuse("a payment is of the type %d", kind)
	}
	ends := fields[len(fields)-4:]
	tx.nonce = fields[0].integer(8, "a payment's nonce")
	ends[0].integer(8, "a payment's gas")
	tx.to = ends[1].bytes(20, "a payment's recipient")
	tx.value = integer(ends[2], "value")
	need(!ends[3].list && len(ends[3].text) <= 256, "a payment's data has more than 256 bytes")
	tx.data = ends[3].text
	zeros := bytes.Count(tx.data, []byte{0})
	gas := int64(21000 + 4*zeros + 16*(len(tx.data)-zeros))
	tx.fee = new(big.Int).Mul(price, big.NewInt(gas))
	tx.from = recoverSender(
		keccak(signed), integer(signature[1], "r"), integer(signature[2], "s"), uint(parity.Uint64()),
	)
	return tx
}

// ---------------------------------------------------------------------------------------------- who signs

type validator struct {
	key   []byte
	power uint64
}

func (v validator) address() []byte { return sha(v.key)[:20] }

// before is CometBFT's order.
func (v validator) before(w validator) bool {
	return v.power > w.power || v.power == w.power && bytes.Compare(v.address(), w.address()) < 0
}

func varint(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func sized(tag byte, data []byte) []byte { return join([]byte{tag}, varint(uint64(len(data))), data) }

func setHash(set []validator) []byte {
	var leaves [][]byte
	for _, v := range set {
		leaves = append(leaves, join([]byte{0x0a, 0x22, 0x0a, 0x20}, v.key, []byte{0x10}, varint(v.power)))
	}
	return root(leaves)
}

func checkSet(set []validator, what string) {
	need(len(set) > 0 && len(set) <= mostValidators, "%s: there are no validators, or too many", what)
	keys := map[string]bool{}
	for _, v := range set {
		need(v.power >= 1 && v.power <= most, "%s: a power is out of range", what)
		need(!keys[string(v.key)], "%s: a key is there twice", what)
		need(usablePoint(v.key), "%s: a key is of small order, so everybody can sign", what)
		keys[string(v.key)] = true
	}
	need(slices.IsSortedFunc(set, func(v, w validator) int {
		if v.before(w) {
			return -1
		}
		return 1
	}), "%s: the validators are not in CometBFT's order", what)
}

type genesis struct {
	digest  []byte
	chainID uint64
	engine  []byte
	set     []validator
	alloc   map[string]*big.Int // what each account has from the start, by the bytes of its address
	supply  *big.Int            // all of it together: coins are neither minted nor burnt, but on a dev chain
	isDev   bool                // the signer is everybody's, so balances may be set by hand
}

const devKey = "61e3d5fd875f007dd386d790641c8c3fb160ba020970ca733f8857a89689445f"

// isPublic tells whether a key that everybody has is among those of the set.
func isPublic(set []validator) bool {
	return slices.ContainsFunc(set, func(v validator) bool { return hex.EncodeToString(v.key) == devKey })
}

// readGenesis takes any JSON: the digest covers each byte of it.
func readGenesis(data []byte) genesis {
	need(utf8.Valid(data), "genesis.json is not UTF-8")
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var values map[string]any
	need(decoder.Decode(&values) == nil && values != nil, "genesis.json is not an object in JSON")
	_, err := decoder.Token()
	need(err != nil && err.Error() == "EOF", "genesis.json is not JSON: something follows")

	integer := func(value any, name string, limit uint64) uint64 {
		digits, _ := value.(json.Number)
		n, err := strconv.ParseUint(string(digits), 10, 64)
		need(err == nil && n >= 1 && n <= limit, "%s in genesis.json is not an integer from 1 to %d", name, limit)
		return n
	}
	key := func(value any, name string) []byte {
		text, _ := value.(string)
		found, err := base64.StdEncoding.DecodeString(text)
		need(err == nil && len(found) == 32 && len(text) == 44, "%s in genesis.json is not a key", name)
		return found
	}
	g := genesis{digest: keccak(data), chainID: integer(values["chainId"], "chainId", 1<<63-37)}
	g.engine = fmt.Appendf(nil, "cairn-%d-%x", g.chainID, g.digest[:12])
	signer, alone := values["signer"]
	validators, network := values["validators"]
	need(alone != network, "genesis.json must name either validators or a signer")
	if alone {
		g.set = []validator{{key(signer, "signer"), 1}}
	} else {
		list, is := validators.([]any)
		need(is, "validators in genesis.json are not a list")
		for _, each := range list {
			entry, is := each.(map[string]any)
			need(is, "a validator in genesis.json is not an object")
			g.set = append(g.set, validator{key(entry["publicKey"], "publicKey"), integer(entry["power"], "power", most)})
		}
		sort.Slice(g.set, func(i, j int) bool { return g.set[i].before(g.set[j]) })
	}
	checkSet(g.set, "genesis.json")
	g.alloc, g.supply, g.isDev = readAlloc(values["alloc"]), new(big.Int), alone && isPublic(g.set)
	for _, balance := range g.alloc {
		g.supply.Add(g.supply, balance)
	}
	return g
}

func readAlloc(value any) map[string]*big.Int {
	given, is := value.(map[string]any)
	need(is, "alloc in genesis.json is not an object")
	alloc := map[string]*big.Int{}
	for text, balance := range given {
		address := asBytes(strings.ToLower(text), 20, "an address in alloc of genesis.json")
		need(strings.HasPrefix(text, "0x"), "an address in alloc of genesis.json does not begin with 0x")
		need(alloc[string(address)] == nil, "alloc of genesis.json has an address twice")
		digits, _ := balance.(json.Number)
		isDigits := digits != "" && strings.Trim(string(digits), "0123456789") == ""
		need(isDigits && len(digits) <= 78, "a balance in alloc of genesis.json is not an integer")
		amount, _ := new(big.Int).SetString(string(digits), 10)
		need(amount.BitLen() <= 256, "a balance in alloc of genesis.json is above 2^256-1")
		alloc[string(address)] = amount
	}
	return alloc
}

type signed struct {
	leaves [][]byte
	height uint64
	signed int
}

// checkSigned checks a signed header: its chain, the set that signs it, and every signature.
func (g genesis) checkSigned(file object, set []validator) signed {
	var s signed
	for _, each := range file.list("header") {
		s.leaves = append(s.leaves, asBytes(each, -1, "leaves of a signed header"))
	}
	need(len(s.leaves) == 14, "a signed header does not have 14 leaves")
	isOurs := bytes.Equal(s.leaves[1], sized(0x0a, g.engine))
	need(isOurs, "signed for another chain, or another genesis.json than this one of 0x%x", g.digest)
	height, used := uint64(0), 0
	if len(s.leaves[2]) > 1 {
		height, used = binary.Uvarint(s.leaves[2][1:])
	}
	need(used > 0 && height > 0 && height < 1<<63, "a signed header has no height")
	need(bytes.Equal(s.leaves[2], join([]byte{8}, varint(height))), "a signed header has no height")
	s.height = height
	need(bytes.Equal(s.leaves[7], join([]byte{0x0a, 0x20}, setHash(set))), "a signed header names other validators")

	round, parts := file.integer("round"), file.object("parts")
	var block []byte
	if total := parts.integer("total"); total > 0 {
		block = join([]byte{8}, varint(total))
	}
	if hash := parts.bytes("hash", -1); len(hash) > 0 {
		block = join(block, sized(0x12, hash))
	}
	block = join([]byte{0x0a, 0x20}, root(s.leaves), sized(0x12, block))
	before := binary.LittleEndian.AppendUint64([]byte{8, 2, 0x11}, height)
	if round > 0 {
		before = binary.LittleEndian.AppendUint64(append(before, 0x19), round)
	}
	before = join(before, sized(0x22, block))

	power, all := new(big.Int), new(big.Int)
	for _, v := range set {
		all.Add(all, new(big.Int).SetUint64(v.power))
	}
	next := uint64(0)
	for _, each := range file.objects("signatures") {
		index, seconds, nanos := each.integer("validator"), each.integer("seconds"), each.integer("nanos")
		signature := each.bytes("signature", 64)
		need(index >= next && index < uint64(len(set)), "signatures are not in order, or of no validator")
		next = index + 1
		var when []byte
		if seconds > 0 {
			when = join(when, []byte{8}, varint(seconds))
		}
		if nanos > 0 {
			when = join(when, []byte{0x10}, varint(nanos))
		}
		message := join(before, sized(0x2a, when), sized(0x32, g.engine))
		message = join(varint(uint64(len(message))), message)
		need(isSigned(set[index].key, message, signature), "the signature of validator %d is wrong", index)
		power.Add(power, new(big.Int).SetUint64(set[index].power))
		s.signed++
	}
	need(
		new(big.Int).Mul(power, big.NewInt(3)).Cmp(new(big.Int).Mul(all, big.NewInt(2))) > 0,
		"not more than two thirds of the power have signed",
	)
	return s
}

// ---------------------------------------------------------------------------------------------- the file

type checker struct {
	genesis
	top      header // called B in docs/formats.md
	report   []string
	cautions []string // why what holds is no proof all the same
}

func (c *checker) caution(text string) {
	if !slices.Contains(c.cautions, text) {
		c.cautions = append(c.cautions, text)
	}
}

// headline is what is printed first: whether it is a proof.
func (c *checker) headline(at string) string {
	if len(c.cautions) > 0 {
		return "VALID, BUT NO PROOF: " + strings.Join(c.cautions, "; ")
	}
	if at != "" {
		return "PROVEN by the block that you trust: no validator's signature was looked at"
	}
	return "PROVEN"
}

func (c *checker) say(format string, values ...any) {
	c.report = append(c.report, fmt.Sprintf(format, values...))
}

func (c *checker) checkCertificate(certificate object) {
	set, height, public := c.set, uint64(0), isPublic(c.set)
	for _, step := range certificate.objects("steps") {
		s := c.checkSigned(step.object("signed"), set)
		var next []validator
		for _, each := range step.objects("validators") {
			next = append(next, validator{each.bytes("publicKey", 32), each.integer("power")})
		}
		checkSet(next, "a step")
		need(s.height > height, "the heights of steps do not ascend")
		need(bytes.Equal(s.leaves[8], join([]byte{0x0a, 0x20}, setHash(next))), "a step names other validators")
		need(!bytes.Equal(s.leaves[7], s.leaves[8]), "a step changes nothing")
		set, height, public = next, s.height, public || isPublic(next)
	}
	s := c.checkSigned(certificate.object("signed"), set)
	need(s.height > height, "the signed header is not above the steps")
	need(bytes.Equal(s.leaves[10], join([]byte{0x0a, 0x20}, c.top.hash)), "another block is signed")
	if len(set) == 1 {
		c.say("signed by its one signer, %x", set[0].key)
	} else {
		c.say("signed by %d of %d validators", s.signed, len(set))
	}
	if public {
		c.caution("everybody has the key of one who signs")
	}
}

func (c *checker) block(file object) header {
	h := readHeader(file.bytes("header", -1), c.chainID)
	path := file.hashes("history")
	if bytes.Equal(h.raw, c.top.raw) && len(path) == 0 {
		return h
	}
	need(h.height < c.top.height, "a block is not below the signed one")
	checkPath(h.hash, h.height, c.top.height, path, c.top.historyRoot, "a block")
	return h
}

func (c *checker) payment(file object, block header) (transaction, uint64) {
	tx := readTransaction(file.bytes("transaction", -1), c.chainID, block.price)
	c.checkSupply(new(big.Int).Add(tx.value, tx.fee), "what a payment costs")
	index := file.integer("index")
	checkPath(tx.hash, index, block.transactionCount, file.hashes("path"), block.transactionsRoot, "a payment")
	return tx, index
}

// holding is what an account holds, with its nonce.
type holding struct {
	balance *big.Int
	nonce   uint64
}

func readHolding(data []byte) holding {
	return holding{new(big.Int).SetBytes(data[:32]), binary.BigEndian.Uint64(data[32:])}
}

func (h holding) equals(other holding) bool {
	return h.balance.Cmp(other.balance) == 0 && h.nonce == other.nonce
}

type state struct {
	address, next []byte
	holding       holding
	touched       uint64
}

func (c *checker) state(file object) state {
	leaf, number := file.bytes("leaf", 88), file.integer("number")
	need(number >= 1, "an account has the number 0")
	checkPath(leaf, number, file.integer("size"), file.hashes("path"), c.top.stateRoot, "state")
	return state{leaf[:20], leaf[68:], readHolding(leaf[20:]), binary.BigEndian.Uint64(leaf[60:])}
}

// excludes tells whether no account exists at this address, which is not the leaf's own.
func (s state) excludes(address []byte) bool {
	above, below := bytes.Compare(address, s.address) > 0, bytes.Compare(address, s.next) < 0
	if bytes.Compare(s.next, s.address) <= 0 {
		return above || below
	}
	return above && below
}

const never = 1<<64 - 1

type change struct {
	block         header
	touched       uint64
	before, after holding
}

func (c *checker) change(file object, address []byte) change {
	block, leaf := c.block(file.object("block")), file.bytes("leaf", 108)
	path := file.hashes("path")
	checkPath(leaf, file.integer("index"), file.integer("count"), path, block.changesRoot, "a change")
	need(bytes.Equal(leaf[:20], address), "a change is of another account")
	found := change{block, binary.BigEndian.Uint64(leaf[20:]), readHolding(leaf[28:]), readHolding(leaf[68:])}
	if block.height > 0 {
		c.checkHolding(address, found.touched, found.before)
	} else {
		isFirst := found.touched == never && found.before.equals(holding{new(big.Int), 0})
		need(isFirst, "an account held something before block 0")
	}
	c.checkHolding(address, block.height, found.after)
	return found
}

// checkSupply checks that there are so many coins. Nobody's word is enough for more.
func (c *checker) checkSupply(amount *big.Int, what string) {
	isPossible := c.isDev || amount.Cmp(c.supply) <= 0
	need(isPossible, "%s is above %s wei, all that alloc of genesis.json gives", what, c.supply)
}

// checkHolding checks what genesis decides: an account begins with what alloc gives, in block 0, or with nothing, and
// never holds more than all coins.
func (c *checker) checkHolding(address []byte, touched uint64, held holding) {
	c.checkSupply(held.balance, "a balance")
	given := c.alloc[string(address)]
	if given == nil {
		given = new(big.Int)
	}
	switch touched {
	case never:
		need(given.Sign() == 0, "alloc of genesis.json gives the account coins, and no block touched it")
		need(held.equals(holding{new(big.Int), 0}), "the account held something before any block touched it")
	case 0:
		need(given.Sign() > 0, "block 0 touched an account to which alloc of genesis.json gives nothing")
		need(held.equals(holding{given, 0}), "block 0 gives the account something else than alloc of genesis.json")
	}
}

// accountState is the account under the signed block: what it holds since when, or that it does not exist.
func (c *checker) accountState(file object, address []byte) (touched uint64, held holding) {
	found := c.state(file)
	if bytes.Equal(found.address, address) {
		// No block has the height that stands for none in a change; here it would be above all heights.
		need(found.touched <= c.top.height, "a block above the signed one touched the account")
		touched, held = found.touched, found.holding
	} else {
		need(found.excludes(address), "the leaf is of another account")
		touched, held = never, holding{new(big.Int), 0}
	}
	c.checkHolding(address, touched, held)
	return touched, held
}

func (c *checker) sayPayment(tx transaction) {
	c.say("0x%x paid %s wei to 0x%x", tx.from, tx.value, tx.to)
	c.say("transaction 0x%x, data %q", tx.hash, tx.data)
}

func (c *checker) sayBlock(what string, h header) {
	at := time.Unix(int64(h.timestamp&(1<<40-1)), 0).UTC().Format(time.RFC3339)
	c.say("%s %d, 0x%x, %s", what, h.height, h.hash, at)
}

func (c *checker) finality(file object) {
	c.sayBlock("final: block", c.block(file.object("block")))
}

func (c *checker) receipt(file object) {
	block := c.block(file.object("block"))
	tx, _ := c.payment(file.object("payment"), block)
	c.sayPayment(tx)
	c.sayBlock("in block", block)
}

func (c *checker) account(file object) {
	address, height := file.bytes("address", 20), file.integer("height")
	need(height <= c.top.height, "the height is above the signed block")
	need(file.has("state") != file.has("change"), "the file must have either state or change")
	var held holding
	if file.has("change") {
		change := c.change(file.object("change"), address)
		need(change.block.height > height, "the change is not above the height")
		need(change.touched == never || change.touched <= height, "another block above the height touched the account")
		held = change.before
	} else {
		var touched uint64
		touched, held = c.accountState(file.object("state"), address)
		need(touched == never || touched <= height, "a block above the height touched the account")
		if touched == never {
			c.say("this account does not exist")
		}
	}
	c.say("0x%x held %s wei after block %d, with the nonce %d", address, held.balance, height, held.nonce)
}

func (c *checker) statement(file object) {
	address, from, to := file.bytes("address", 20), file.integer("from"), file.integer("to")
	need(from <= to && to <= c.top.height, "from, to and the signed block are not in order")
	need(file.has("state") != file.has("next"), "the file must have either state or next")
	var last *change
	var opening holding
	// follows checks that a touch before is that of the last change; without one, that it is none or below from.
	follows := func(touched uint64, before holding) {
		if last == nil {
			need(touched < from || touched == never, "a change before the first one is left out")
			opening = before
			return
		}
		need(touched == last.block.height, "a change is left out")
		need(before.equals(last.after), "a change does not begin where the one before ends")
	}
	for _, each := range file.objects("changes") {
		change := c.change(each, address)
		height := change.block.height
		need(height >= from && height <= to, "a change is not within from and to")
		need(last == nil || height > last.block.height, "the heights of changes do not ascend")
		follows(change.touched, change.before)
		c.explain(change, each.objects("payments"), address)
		c.sayBlock("changed by block", change.block)
		before, after := change.before, change.after
		c.say("balance %s → %s, nonce %d → %d", before.balance, after.balance, before.nonce, after.nonce)
		last = &change
	}
	var closing holding
	if file.has("next") {
		next := c.change(file.object("next"), address)
		need(next.block.height > to, "the next change is not above to")
		closing = next.before
		follows(next.touched, closing)
	} else {
		var touched uint64
		touched, closing = c.accountState(file.object("state"), address)
		follows(touched, closing)
	}
	c.say("opening balance %s wei with the nonce %d", opening.balance, opening.nonce)
	c.say("closing balance %s wei with the nonce %d", closing.balance, closing.nonce)
	c.say("this is all that happened to 0x%x from block %d to block %d", address, from, to)
	c.ends(file, from, to)
}

// ends checks the blocks at the ends of a statement and beside them, whose times show of which days it is.
func (c *checker) ends(file object, from, to uint64) {
	if !file.has("ends") {
		return
	}
	above := from // One less is the lowest; a block 0 has none below it.
	if from > 0 {
		above = from - 1
	}
	for _, each := range file.objects("ends") {
		block := c.block(each)
		need(block.height >= above, "the blocks of ends are not in order, or too low")
		need(block.height <= from || block.height == to || block.height == to+1, "a block of ends is at neither end")
		above = block.height + 1
		c.sayBlock("at its ends: block", block)
	}
}

// explain checks that the payments of a change give what the account holds after it.
func (c *checker) explain(change change, payments []object, address []byte) {
	rest := new(big.Int).Sub(change.after.balance, change.before.balance)
	nonce := new(big.Int).SetUint64(change.before.nonce)
	after, fees := uint64(0), new(big.Int)
	for _, each := range payments {
		tx, index := c.payment(each, change.block)
		need(index >= after, "the payments are not in order")
		after = index + 1
		sends, receives := bytes.Equal(tx.from, address), bytes.Equal(tx.to, address)
		need(sends || receives, "a payment does not name the account")
		if sends {
			need(tx.nonce.Cmp(nonce) == 0, "a payment has another nonce")
			nonce.Add(nonce, big.NewInt(1))
			rest.Add(rest, tx.value).Add(rest, tx.fee)
		}
		if receives {
			rest.Sub(rest, tx.value)
		}
		fees.Add(fees, tx.fee)
		c.sayPayment(tx)
	}
	need(nonce.Cmp(new(big.Int).SetUint64(change.after.nonce)) == 0, "payments that the account sent are left out")
	c.checkSupply(rest, "what no payment explains")
	isAll := uint64(len(payments)) == change.block.transactionCount
	checkFees(rest, fees, isAll, change.block, address)
	if rest.Sign() != 0 {
		c.saySource(rest, change.block)
	}
}

// checkFees checks that in a block with transactions only its proposer gets more than payments: the fees of all of
// them, to which the file may have all payments or some.
func checkFees(rest, listed *big.Int, isAll bool, block header, address []byte) {
	const wrong = "the payments do not explain the balance"
	switch {
	case block.transactionCount == 0:
	case !bytes.Equal(block.proposer, address):
		need(rest.Sign() == 0, wrong)
	case isAll:
		need(rest.Cmp(listed) == 0, wrong)
	default:
		need(rest.Cmp(listed) >= 0, wrong)
	}
}

// saySource says where money comes from that no payment brought, or goes to. There are three places, and no other.
func (c *checker) saySource(rest *big.Int, block header) {
	switch {
	case block.height == 0: // checkHolding has compared it.
		c.say("%s wei given by genesis.json", rest)
	case block.transactionCount > 0:
		c.say("%s wei of fees of the block", rest)
	default:
		need(c.isDev, "a balance changed without a payment, which only a dev chain may do")
		c.caution("balances were set by hand")
		c.say("%s wei set by hand", rest)
	}
}

func (c *checker) history(file object) {
	first, second := readHeader(file.bytes("first", -1), c.chainID), c.block(file.object("second"))
	need(first.height < second.height, "first is not below second")
	checkPath(first.hash, first.height, second.height, file.hashes("inclusion"), second.historyRoot, "inclusion")
	checkConsistency(first.height, second.height, first.historyRoot, second.historyRoot, file.hashes("consistency"))
	c.say("the history from block %d to block %d was only appended to", first.height, second.height)
}

// descendants checks them all, and gives the blocks that --at may name; with a witness, one must be by it.
func (c *checker) descendants(file object, witness []byte) []header {
	blocks, seen := []header{c.top}, false
	if !file.has("descendants") {
		need(witness == nil, "there is no valid signature by the witness")
		return blocks
	}
	descendants := file.objects("descendants")
	need(len(descendants) <= mostDescendants, "the file has more than %d descendants", mostDescendants)
	for _, each := range descendants {
		h, path := readHeader(each.bytes("header", -1), c.chainID), each.hashes("history")
		if !bytes.Equal(h.raw, c.top.raw) || len(path) != 0 {
			checkPath(c.top.hash, c.top.height, h.height, path, h.historyRoot, "a descendant")
		}
		blocks = append(blocks, h)
		message := join([]byte("cairn witness 1\x00"), c.digest, binary.BigEndian.AppendUint64(nil, h.height), h.hash)
		entries := each.objects("witnesses")
		need(len(entries) <= mostWitnesses, "a descendant has more than %d witnesses", mostWitnesses)
		for _, entry := range entries {
			key, signature := entry.bytes("publicKey", 32), entry.bytes("signature", 64)
			if !seen && bytes.Equal(key, witness) && isSigned(key, message, signature) {
				seen = true
				c.sayBlock("seen by the witness: block", h)
			}
		}
	}
	need(witness == nil || seen, "there is no valid signature by the witness")
	return blocks
}

// Check gives what the file proves, or the reason why it proves nothing.
func Check(genesisData, fileData []byte, at, witness string) (report []string, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			reason, is := caught.(refusal)
			if !is {
				panic(caught)
			}
			err = fmt.Errorf("%s", string(reason))
		}
	}()
	c := checker{genesis: readGenesis(genesisData)}
	file := readFile(fileData)
	format := file.text("format")
	kinds := map[string]func(object){
		"cairn-finality-1":  c.finality,
		"cairn-receipt-1":   c.receipt,
		"cairn-account-1":   c.account,
		"cairn-statement-1": c.statement,
		"cairn-history-1":   c.history,
	}
	kind, known := kinds[format]
	need(known, "the format %q is not known", format)
	certificate := file.object("certificate")
	c.top = readHeader(certificate.bytes("header", -1), c.chainID)
	var key []byte
	if witness != "" {
		key = asBytes(witness, 32, "the witness's key")
	}
	blocks := c.descendants(file, key)
	if at == "" {
		c.checkCertificate(certificate)
	} else {
		height, hash, _ := strings.Cut(at, ":")
		trusted := asBytes(hash, 32, "the hash after --at")
		need(slices.ContainsFunc(blocks, func(h header) bool {
			return strconv.FormatUint(h.height, 10) == height && bytes.Equal(h.hash, trusted)
		}), "the file does not have the block that you trust")
		c.say("under the block %s, that you trust; its signatures are not looked at", at)
	}
	kind(file)
	c.sayBlock("all of it under block", c.top)
	c.say("chain %d, genesis digest 0x%x", c.chainID, c.digest)
	return append([]string{c.headline(at)}, c.report...), nil
}

// ---------------------------------------------------------------------------------------------- the program

// latin1 gives the bytes that the characters stand for.
func latin1(text string) []byte {
	var data []byte
	for _, character := range text {
		data = append(data, byte(character))
	}
	return data
}

func answerLines() {
	requests, answers := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for requests.More() {
		var request struct{ Genesis, File, At, Witness string }
		answer := map[string]any{"valid": true}
		if err := requests.Decode(&request); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if _, err := Check(latin1(request.Genesis), latin1(request.File), request.At, request.Witness); err != nil {
			answer = map[string]any{"valid": false, "reason": err.Error()}
		}
		answers.Encode(answer)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: verify GENESIS FILE [--at HEIGHT:HASH] [--witness KEY]")
	os.Exit(2)
}

func main() {
	var paths []string
	options := map[string]string{"--at": "", "--witness": ""}
	for args := os.Args[1:]; len(args) > 0; args = args[1:] {
		if args[0] == "--lines" {
			answerLines()
			return
		}
		if _, is := options[args[0]]; !is {
			paths = append(paths, args[0])
		} else if len(args) < 2 || args[1] == "" {
			usage()
		} else {
			options[args[0]] = args[1]
			args = args[1:]
		}
	}
	if len(paths) != 2 {
		usage()
	}
	var data [2][]byte
	for i, path := range paths {
		var err error
		if data[i], err = os.ReadFile(path); err != nil {
			fmt.Println("NOT PROVEN:", err)
			os.Exit(1)
		}
	}
	report, err := Check(data[0], data[1], options["--at"], options["--witness"])
	if err != nil {
		fmt.Println("NOT PROVEN:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(report, "\n"))
}
