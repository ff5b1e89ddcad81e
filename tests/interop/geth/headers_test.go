package geth

import (
	"encoding/binary"
	"encoding/json"
	"math/big"
	"os"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
)

// vector is one of tests/vectors/headers.json, which CAIRN_HEADERS names.
type vector struct {
	PreviousHash     common.Hash
	Proposer         common.Address
	StateRoot        common.Hash
	TransactionsRoot common.Hash
	ReceiptsRoot     common.Hash
	MixHash          common.Hash
	BlockHeight      uint64
	GasLimit         uint64
	GasUsed          uint64
	Timestamp        uint64
	ChainID          uint64
	BaseFeePerGas    string
	TransactionCount uint32
	Encoded          hexutil.Bytes
	Hash             common.Hash
}

func TestHeaderVectors(t *testing.T) {
	var vectors []vector
	if err := json.Unmarshal(must(os.ReadFile(os.Getenv("CAIRN_HEADERS")))(t), &vectors); err != nil {
		t.Fatal(err)
	}
	same(t, "any", len(vectors) > 0, true)
	for _, vector := range vectors {
		baseFee, _ := new(big.Int).SetString(vector.BaseFeePerGas, 10)
		header := &types.Header{
			ParentHash:  vector.PreviousHash,
			UncleHash:   types.EmptyUncleHash,
			Coinbase:    vector.Proposer,
			Root:        vector.StateRoot,
			TxHash:      vector.TransactionsRoot,
			ReceiptHash: vector.ReceiptsRoot,
			Difficulty:  new(big.Int),
			Number:      new(big.Int).SetUint64(vector.BlockHeight),
			GasLimit:    vector.GasLimit,
			GasUsed:     vector.GasUsed,
			Time:        vector.Timestamp,
			Extra: binary.BigEndian.AppendUint32(
				binary.BigEndian.AppendUint64([]byte("cairn\x03"), vector.ChainID), vector.TransactionCount),
			MixDigest: vector.MixHash,
			BaseFee:   baseFee,
		}
		encoded := must(rlp.EncodeToBytes(header))(t)
		same(t, "encoded", hexutil.Encode(encoded), vector.Encoded.String())
		same(t, "hash", header.Hash(), vector.Hash)
		var decoded types.Header
		if err := rlp.DecodeBytes(vector.Encoded, &decoded); err != nil {
			t.Fatal(err)
		}
		same(t, "hash of what was decoded", decoded.Hash(), vector.Hash)
	}
}
