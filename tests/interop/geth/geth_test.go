// go-ethereum's own client against a running node: CAIRN_HTTP and CAIRN_WS name it, CAIRN_KEY is a funded account's key.
package geth

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/accounts/abi/bind/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
)

const (
	patience = 5 * time.Minute
	gas      = 21_000
	heads    = 3
)

var gwei = big.NewInt(1_000_000_000)

func connect(t *testing.T, variable string) (context.Context, *ethclient.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	client := must(ethclient.DialContext(ctx, os.Getenv(variable)))(t)
	t.Cleanup(client.Close)
	return ctx, client
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, expected %v", what, got, want)
	}
}

func sameNumber(t *testing.T, what string, got, want *big.Int) {
	t.Helper()
	same(t, what, fmt.Sprint(got), fmt.Sprint(want))
}

// findByOwnHash asks for a block by the hash that go-ethereum computes of its header.
func findByOwnHash(t *testing.T, ctx context.Context, client *ethclient.Client, header *types.Header) *types.Block {
	t.Helper()
	found := must(client.HeaderByHash(ctx, header.Hash()))(t)
	same(t, "hash of the header found", found.Hash(), header.Hash())
	block := must(client.BlockByHash(ctx, header.Hash()))(t)
	same(t, "hash of the block found", block.Hash(), header.Hash())
	sameNumber(t, "number", block.Number(), header.Number)
	return block
}

func TestNamedBlocks(t *testing.T) {
	ctx, client := connect(t, "CAIRN_HTTP")
	genesis := must(client.BlockByNumber(ctx, new(big.Int)))(t)
	same(t, "transactions of genesis", len(genesis.Transactions()), 0)
	findByOwnHash(t, ctx, client, genesis.Header())
	for _, tag := range []rpc.BlockNumber{rpc.EarliestBlockNumber, rpc.LatestBlockNumber, rpc.SafeBlockNumber, rpc.FinalizedBlockNumber} {
		block := must(client.BlockByNumber(ctx, big.NewInt(tag.Int64())))(t)
		findByOwnHash(t, ctx, client, block.Header())
	}
	latest := must(client.BlockByNumber(ctx, nil))(t)
	pending := must(client.BlockByNumber(ctx, big.NewInt(rpc.PendingBlockNumber.Int64())))(t)
	if pending.Number().Cmp(latest.Number()) <= 0 {
		t.Errorf("the pending block is %v, after %v", pending.Number(), latest.Number())
	}
	must(client.HeaderByNumber(ctx, big.NewInt(rpc.PendingBlockNumber.Int64())))(t)
	must(client.PendingTransactionCount(ctx))(t)
}

func TestNewHeads(t *testing.T) {
	ctx, client := connect(t, "CAIRN_WS")
	told := make(chan *types.Header)
	subscription := must(client.SubscribeNewHead(ctx, told))(t)
	defer subscription.Unsubscribe()
	var parent common.Hash
	for count := 0; count < heads; count++ {
		select {
		case head := <-told:
			block := findByOwnHash(t, ctx, client, head)
			same(t, "transactions of a block of an idle chain", len(block.Transactions()), 0)
			same(t, "hash by number", must(client.BlockByNumber(ctx, head.Number))(t).Hash(), head.Hash())
			if count > 0 {
				same(t, "parent", head.ParentHash, parent)
			}
			parent = head.Hash()
		case err := <-subscription.Err():
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatal("no head came")
		}
	}
}

func TestFees(t *testing.T) {
	ctx, client := connect(t, "CAIRN_HTTP")
	head := must(client.HeaderByNumber(ctx, nil))(t)
	tip := must(client.SuggestGasTipCap(ctx))(t)
	sameNumber(t, "gas price", must(client.SuggestGasPrice(ctx))(t), new(big.Int).Add(head.BaseFee, tip))
	history := must(client.FeeHistory(ctx, 2, head.Number, []float64{25, 75}))(t)
	sameNumber(t, "oldest block", history.OldestBlock, new(big.Int).Sub(head.Number, big.NewInt(1)))
	same(t, "blocks", len(history.GasUsedRatio), 2)
	same(t, "rewards", len(history.Reward), 2)
	same(t, "base fees", len(history.BaseFee), 3)
	for _, fee := range history.BaseFee {
		sameNumber(t, "base fee", fee, head.BaseFee)
	}
}

func sender(t *testing.T) (*ecdsa.PrivateKey, common.Address) {
	t.Helper()
	key := must(crypto.HexToECDSA(os.Getenv("CAIRN_KEY")))(t)
	return key, crypto.PubkeyToAddress(key.PublicKey)
}

func newAddress(t *testing.T) common.Address {
	t.Helper()
	return crypto.PubkeyToAddress(must(crypto.GenerateKey())(t).PublicKey)
}

func TestSend(t *testing.T) {
	ctx, client := connect(t, "CAIRN_HTTP")
	key, from := sender(t)
	chainID := must(client.ChainID(ctx))(t)
	baseFee := must(client.HeaderByNumber(ctx, nil))(t).BaseFee
	tip := gwei
	price := new(big.Int).Add(baseFee, tip)
	cap := new(big.Int).Add(price, gwei)
	for kind := range 3 {
		t.Run(fmt.Sprintf("type %d", kind), func(t *testing.T) {
			to, value := newAddress(t), big.NewInt(int64(1000+kind))
			nonce := must(client.PendingNonceAt(ctx, from))(t)
			drafts := []types.TxData{
				&types.LegacyTx{Nonce: nonce, GasPrice: price, Gas: gas, To: &to, Value: value},
				&types.AccessListTx{ChainID: chainID, Nonce: nonce, GasPrice: price, Gas: gas, To: &to, Value: value},
				&types.DynamicFeeTx{ChainID: chainID, Nonce: nonce, GasTipCap: tip, GasFeeCap: cap, Gas: gas, To: &to, Value: value},
			}
			tx := must(types.SignNewTx(key, types.LatestSignerForChainID(chainID), drafts[kind]))(t)
			if err := client.SendTransaction(ctx, tx); err != nil {
				t.Fatal(err)
			}
			receipt := must(bind.WaitMined(ctx, client, tx.Hash()))(t)
			checkReceipt(t, receipt, tx, price)
			checkMined(t, ctx, client, receipt, tx, from)
			sameNumber(t, "balance", must(client.BalanceAt(ctx, to, receipt.BlockNumber))(t), value)
			same(t, "nonce", must(client.NonceAt(ctx, from, nil))(t), nonce+1)
		})
	}
}

func checkReceipt(t *testing.T, receipt *types.Receipt, tx *types.Transaction, price *big.Int) {
	t.Helper()
	same(t, "type", receipt.Type, tx.Type())
	same(t, "status", receipt.Status, types.ReceiptStatusSuccessful)
	same(t, "transaction", receipt.TxHash, tx.Hash())
	same(t, "gas", receipt.GasUsed, uint64(gas))
	sameNumber(t, "price", receipt.EffectiveGasPrice, price)
}

// checkMined looks for the transaction by each way that leads from its receipt to it.
func checkMined(t *testing.T, ctx context.Context, client *ethclient.Client, receipt *types.Receipt, tx *types.Transaction, from common.Address) {
	t.Helper()
	block := findByOwnHash(t, ctx, client, must(client.HeaderByNumber(ctx, receipt.BlockNumber))(t))
	same(t, "hash of the block", block.Hash(), receipt.BlockHash)
	mined := block.Transaction(tx.Hash())
	if mined == nil {
		t.Fatal("the block does not have it")
	}
	same(t, "bytes", bytes.Equal(must(mined.MarshalBinary())(t), must(tx.MarshalBinary())(t)), true)
	found, isPending, err := client.TransactionByHash(ctx, tx.Hash())
	same(t, "pending", isPending, false)
	same(t, "hash", must(found, err)(t).Hash(), tx.Hash())
	placed := must(client.TransactionInBlock(ctx, block.Hash(), receipt.TransactionIndex))(t)
	same(t, "sender", must(client.TransactionSender(ctx, placed, block.Hash(), receipt.TransactionIndex))(t), from)
	same(t, "count", int(must(client.TransactionCount(ctx, block.Hash()))(t)), len(block.Transactions()))
	receipts := must(client.BlockReceipts(ctx, rpc.BlockNumberOrHashWithHash(block.Hash(), true)))(t)
	same(t, "receipts of the block", receipts[receipt.TransactionIndex].TxHash, tx.Hash())
}

// TestReference sends a transfer that says what it is for, with the gas limit that the node estimates.
func TestReference(t *testing.T) {
	ctx, client := connect(t, "CAIRN_HTTP")
	key, from := sender(t)
	to, value, reference := newAddress(t), big.NewInt(4711), []byte("invoice 4711, Größe 東京")
	opts := bind.NewKeyedTransactor(key, must(client.ChainID(ctx))(t))
	opts.Context, opts.Value = ctx, value
	opts.GasLimit = must(client.EstimateGas(ctx, ethereum.CallMsg{From: from, To: &to, Value: value, Data: reference}))(t)
	same(t, "estimate", opts.GasLimit, intrinsicGas(reference))
	contract := bind.NewBoundContract(to, abi.ABI{}, client, client, client)
	tx := must(contract.RawTransact(opts, reference))(t)
	receipt := must(bind.WaitMined(ctx, client, tx.Hash()))(t)
	same(t, "status", receipt.Status, types.ReceiptStatusSuccessful)
	same(t, "gas used", receipt.GasUsed, intrinsicGas(reference))
	checkMined(t, ctx, client, receipt, tx, from)
	found, _, err := client.TransactionByHash(ctx, tx.Hash())
	same(t, "reference", string(must(found, err)(t).Data()), string(reference))
	sameNumber(t, "balance", must(client.BalanceAt(ctx, to, nil))(t), value)

	opts.GasLimit = 100_000
	for _, size := range []int{maxDataBytes + 1, 100 * maxDataBytes} {
		_, err = contract.RawTransact(opts, make([]byte, size))
		if err == nil || !strings.HasPrefix(err.Error(), "oversized data: ") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestBind(t *testing.T) {
	ctx, client := connect(t, "CAIRN_HTTP")
	key, from := sender(t)
	to, value := newAddress(t), big.NewInt(77)
	opts := bind.NewKeyedTransactor(key, must(client.ChainID(ctx))(t))
	opts.Context, opts.Value = ctx, value
	// Unless it is given, bind looks for the code of the contract before it estimates.
	opts.GasLimit = must(client.EstimateGas(ctx, ethereum.CallMsg{From: from, To: &to, Value: value}))(t)
	tx := must(bind.NewBoundContract(to, abi.ABI{}, client, client, client).RawTransact(opts, nil))(t)
	same(t, "type", int(tx.Type()), types.DynamicFeeTxType)
	receipt := must(bind.WaitMined(ctx, client, tx.Hash()))(t)
	same(t, "status", receipt.Status, types.ReceiptStatusSuccessful)
	sameNumber(t, "balance", must(client.BalanceAt(ctx, to, nil))(t), value)
}
