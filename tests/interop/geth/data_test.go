package geth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/ethclient/simulated"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/holiman/uint256"
)

const (
	dataFields    = 1_000
	maxDataBytes  = 256
	blockGasLimit = 210_000_000
	// The first block of go-ethereum then has a base fee of 1 gwei, for the genesis block is empty.
	genesisBaseFee = 1_142_857_142
)

// rules are Ethereum's before Prague: EIP-7623 then added a least price of data, which this chain does not have.
func rules() *params.ChainConfig {
	config := *params.AllDevChainProtocolChanges
	config.PragueTime, config.OsakaTime, config.BogotaTime = nil, nil, nil
	config.BlobScheduleConfig = &params.BlobScheduleConfig{Cancun: params.DefaultCancunBlobConfig}
	return &config
}

// startGeth is a whole node of go-ethereum in this process, which makes a block when it is told to.
func startGeth(t *testing.T, rich common.Address) (*rpc.Client, func()) {
	t.Helper()
	alloc := types.GenesisAlloc{rich: {Balance: new(big.Int).Lsh(common.Big1, 200)}}
	socket := filepath.Join(must(os.MkdirTemp("", "geth"))(t), "ipc")
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(socket)) })
	backend := simulated.NewBackend(alloc, func(stack *node.Config, conf *ethconfig.Config) {
		stack.IPCPath = socket
		conf.Genesis.Config = rules()
		conf.Genesis.GasLimit = blockGasLimit
		conf.Genesis.BaseFee = big.NewInt(genesisBaseFee)
		conf.Miner.GasCeil = blockGasLimit
		conf.Miner.GasPrice = common.Big1
	})
	t.Cleanup(func() { backend.Close() })
	client := must(rpc.Dial(socket))(t)
	t.Cleanup(client.Close)
	return client, func() { backend.Commit() }
}

// randomData is a data field of any length that the chain allows: random bytes, zero bytes, both mixed, or text.
func randomData(random *rand.Rand) []byte {
	length := random.IntN(maxDataBytes + 1)
	data := make([]byte, length)
	switch random.IntN(4) {
	case 0:
		for at := range data {
			data[at] = byte(random.Uint32())
		}
	case 1:
	case 2:
		for at := range data {
			if random.IntN(2) == 0 {
				data[at] = byte(random.Uint32())
			}
		}
	default:
		text := strings.Repeat(fmt.Sprintf("invoice %d, Größe 東京 ", random.IntN(10_000)), 12)
		copy(data, text)
	}
	return data
}

// randomDraft has a gas limit from what is needed up to twice as much, as wallets with a margin have.
func randomDraft(random *rand.Rand, chainID *big.Int, nonce uint64) types.TxData {
	to := common.BigToAddress(new(big.Int).SetUint64(random.Uint64() | 1<<32))
	value, data := new(big.Int).SetUint64(random.Uint64N(1_000_000)), randomData(random)
	gas := intrinsicGas(data)
	gas += random.Uint64N(2) * random.Uint64N(gas)
	tip := new(big.Int).SetUint64(2 + random.Uint64N(2_000_000_000))
	price := new(big.Int).Add(gwei, tip)
	switch random.IntN(3) {
	case 0:
		return &types.LegacyTx{Nonce: nonce, GasPrice: price, Gas: gas, To: &to, Value: value, Data: data}
	case 1:
		return &types.AccessListTx{ChainID: chainID, Nonce: nonce, GasPrice: price, Gas: gas, To: &to, Value: value, Data: data}
	default:
		cap := new(big.Int).Add(price, big.NewInt(random.Int64N(3)-1))
		tip = slices.MinFunc([]*big.Int{tip, cap}, (*big.Int).Cmp)
		return &types.DynamicFeeTx{
			ChainID: chainID, Nonce: nonce, GasTipCap: tip, GasFeeCap: cap, Gas: gas, To: &to, Value: value, Data: data,
		}
	}
}

// intrinsicGas is what go-ethereum takes for a transfer with the data.
func intrinsicGas(data []byte) uint64 {
	config := rules()
	gas, err := core.IntrinsicGas(data, nil, nil, common.Address{}, &common.Address{1}, new(uint256.Int), config.Rules(common.Big0, true, 0))
	if err != nil {
		panic(err)
	}
	return gas
}

// askAll makes one batch of a method, with the arguments of each transaction, and returns the results as they came.
func askAll(t *testing.T, ctx context.Context, client *rpc.Client, method string, txs []*types.Transaction, arguments func(*types.Transaction) []any) []json.RawMessage {
	t.Helper()
	var results []json.RawMessage
	for part := range slices.Chunk(txs, 100) {
		got := make([]json.RawMessage, len(part))
		calls := make([]rpc.BatchElem, len(part))
		for at, tx := range part {
			calls[at] = rpc.BatchElem{Method: method, Args: arguments(tx), Result: &got[at]}
		}
		if err := client.BatchCallContext(ctx, calls); err != nil {
			t.Fatal(err)
		}
		for at, call := range calls {
			if call.Error != nil {
				t.Fatalf("%s of %s with %d bytes: %v", method, part[at].Hash(), len(part[at].Data()), call.Error)
			}
		}
		results = append(results, got...)
	}
	return results
}

func byHash(tx *types.Transaction) []any { return []any{tx.Hash()} }

func signed(t *testing.T) func(*types.Transaction) []any {
	return func(tx *types.Transaction) []any { return []any{hexutil.Encode(must(tx.MarshalBinary())(t))} }
}

func asCall(from common.Address) func(*types.Transaction) []any {
	return func(tx *types.Transaction) []any {
		return []any{map[string]any{"from": from, "to": tx.To(), "value": hexutil.EncodeBig(tx.Value()), "input": hexutil.Encode(tx.Data())}}
	}
}

// sorted is the object with its members in order, without those of a block that differ from chain to chain.
func sorted(t *testing.T, object json.RawMessage) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		t.Fatalf("%v: %s", err, object)
	}
	for _, name := range []string{"blockHash", "blockTimestamp"} {
		if value, isThere := members[name]; isThere && !bytes.Equal(value, []byte("null")) {
			members[name] = json.RawMessage(`"of this chain"`)
		}
	}
	return string(must(json.Marshal(members))(t))
}

// TestDataFields sends the same signed transactions to this chain and to go-ethereum, and compares all that both say of
// them. CAIRN_HTTP is a new dev chain that makes a block when it is told to; CAIRN_SEED chooses the transactions.
func TestDataFields(t *testing.T) {
	ctx, client := connect(t, "CAIRN_HTTP")
	cairn := client.Client()
	key, from := sender(t)
	geth, commit := startGeth(t, from)
	seed := must(strconv.ParseUint(os.Getenv("CAIRN_SEED"), 10, 64))(t)
	random := rand.New(rand.NewPCG(seed, 0))
	chainID := must(client.ChainID(ctx))(t)
	signer := types.LatestSignerForChainID(chainID)

	var txs []*types.Transaction
	sizes, kinds, bytesInAll := map[int]bool{}, map[uint8]int{}, 0
	for nonce := range uint64(dataFields) {
		tx := must(types.SignNewTx(key, signer, randomDraft(random, chainID, nonce)))(t)
		txs = append(txs, tx)
		sizes[len(tx.Data())], kinds[tx.Type()], bytesInAll = true, kinds[tx.Type()]+1, bytesInAll+len(tx.Data())
	}
	compared := 0
	compare := func(what string, method string, arguments func(*types.Transaction) []any, shown func(*testing.T, json.RawMessage) string) {
		theirs := askAll(t, ctx, geth, method, txs, arguments)
		for at, ours := range askAll(t, ctx, cairn, method, txs, arguments) {
			same(t, fmt.Sprintf("%s of %d bytes %x", what, len(txs[at].Data()), txs[at].Data()), shown(t, ours), shown(t, theirs[at]))
			compared++
		}
	}
	asIs := func(_ *testing.T, result json.RawMessage) string { return string(result) }

	for at, estimate := range askAll(t, ctx, cairn, "eth_estimateGas", txs, asCall(from)) {
		same(t, "estimate", string(estimate), fmt.Sprintf(`"%#x"`, intrinsicGas(txs[at].Data())))
	}
	compare("call", "eth_call", asCall(from), asIs)
	compare("hash", "eth_sendRawTransaction", signed(t), asIs)
	compare("pending object", "eth_getTransactionByHash", byHash, sorted)

	commit()
	if err := cairn.CallContext(ctx, nil, "evm_mine"); err != nil {
		t.Fatal(err)
	}
	compare("object", "eth_getTransactionByHash", byHash, sorted)
	compare("receipt", "eth_getTransactionReceipt", byHash, sorted)
	compare("signed bytes", "eth_getRawTransactionByHash", byHash, asIs)
	for at, receipt := range askAll(t, ctx, cairn, "eth_getTransactionReceipt", txs, byHash) {
		var shown types.Receipt
		if err := json.Unmarshal(receipt, &shown); err != nil {
			t.Fatal(err)
		}
		same(t, "gas used", shown.GasUsed, intrinsicGas(txs[at].Data()))
	}
	compareBlocks(t, ctx, cairn, geth)
	t.Logf("seed %d: %d transactions of types %v with %d bytes of data in %d lengths: %d answers are the same", seed, len(txs), kinds, bytesInAll, len(sizes), compared)
}

// compareBlocks compares what both chains say of the one block that they have made.
func compareBlocks(t *testing.T, ctx context.Context, cairn, geth *rpc.Client) {
	t.Helper()
	for _, method := range []string{"eth_getBlockByNumber", "eth_getBlockReceipts", "eth_getBlockTransactionCountByNumber"} {
		arguments := []any{"0x1"}
		if method == "eth_getBlockByNumber" {
			arguments = append(arguments, true)
		}
		var ours, theirs json.RawMessage
		for client, result := range map[*rpc.Client]*json.RawMessage{cairn: &ours, geth: &theirs} {
			if err := client.CallContext(ctx, result, method, arguments...); err != nil {
				t.Fatal(err)
			}
		}
		if method == "eth_getBlockTransactionCountByNumber" {
			same(t, method, string(ours), string(theirs))
			continue
		}
		same(t, method, listed(t, ours), listed(t, theirs))
	}
}

// listed is what a block says of its transactions, or its receipts, and the gas that they used.
func listed(t *testing.T, answer json.RawMessage) string {
	t.Helper()
	var block struct {
		GasUsed       string
		BaseFeePerGas string
		Transactions  []json.RawMessage
	}
	if bytes.HasPrefix(answer, []byte("[")) {
		if err := json.Unmarshal(answer, &block.Transactions); err != nil {
			t.Fatal(err)
		}
	} else if err := json.Unmarshal(answer, &block); err != nil {
		t.Fatal(err)
	}
	lines := []string{block.GasUsed, block.BaseFeePerGas}
	for _, object := range block.Transactions {
		lines = append(lines, sorted(t, object))
	}
	return strings.Join(lines, "\n")
}
