// eth_getBalance-unknown-account
>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0xc1cadaffffffffffffffffffffffffffffffffff","latest"]}
<< {"jsonrpc":"2.0","id":1,"result":"0x0"}
// eth_getTransactionCount-unknown-account
>> {"jsonrpc":"2.0","id":1,"method":"eth_getTransactionCount","params":["0xc1cadaffffffffffffffffffffffffffffffffff","latest"]}
<< {"jsonrpc":"2.0","id":1,"result":"0x0"}
// eth_getStorageAt-unknown-account
>> {"jsonrpc":"2.0","id":1,"method":"eth_getStorageAt","params":["0xc1cadaffffffffffffffffffffffffffffffffff","0x0100000000000000000000000000000000000000000000000000000000000000","latest"]}
<< {"jsonrpc":"2.0","id":1,"result":"0x0000000000000000000000000000000000000000000000000000000000000000"}
// eth_getStorageAt-invalid-key
>> {"jsonrpc":"2.0","id":1,"method":"eth_getStorageAt","params":["0xaa00000000000000000000000000000000000000","0xasdf","latest"]}
<< {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"unable to decode storage key: hex string invalid"}}
// eth_getStorageAt-invalid-key-too-large
>> {"jsonrpc":"2.0","id":1,"method":"eth_getStorageAt","params":["0xaa00000000000000000000000000000000000000","0x00000000000000000000000000000000000000000000000000000000000000000","latest"]}
<< {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"unable to decode storage key: hex string too long, want at most 32 bytes"}}
// eth_getBlockByHash-empty-hash
>> {"jsonrpc":"2.0","id":1,"method":"eth_getBlockByHash","params":["0x0000000000000000000000000000000000000000000000000000000000000000",true]}
<< {"jsonrpc":"2.0","id":1,"result":null}
// eth_getBlockByHash-notfound-hash
>> {"jsonrpc":"2.0","id":1,"method":"eth_getBlockByHash","params":["0x00000000000000000000000000000000000000000000000000000000deadbeef",true]}
<< {"jsonrpc":"2.0","id":1,"result":null}
// eth_getBlockByNumber-notfound
>> {"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x3e8",true]}
<< {"jsonrpc":"2.0","id":1,"result":null}
// eth_getBlockReceipts-future
>> {"jsonrpc":"2.0","id":1,"method":"eth_getBlockReceipts","params":["0x37"]}
<< {"jsonrpc":"2.0","id":1,"result":null}
// eth_getBlockReceipts-not-found
>> {"jsonrpc":"2.0","id":1,"method":"eth_getBlockReceipts","params":["0x00000000000000000000000000000000000000000000000000000000deadbeef"]}
<< {"jsonrpc":"2.0","id":1,"result":null}
// eth_getTransactionReceipt-notfound-tx
>> {"jsonrpc":"2.0","id":1,"method":"eth_getTransactionReceipt","params":["0x00000000000000000000000000000000000000000000000000000000deadbeef"]}
<< {"jsonrpc":"2.0","id":1,"result":null}
// eth_estimateGas-simple-transfer
>> {"jsonrpc":"2.0","id":1,"method":"eth_estimateGas","params":[{"from":"0xaa00000000000000000000000000000000000000","to":"0x0100000000000000000000000000000000000000"}]}
<< {"jsonrpc":"2.0","id":1,"result":"0x5208"}
// eth_estimateGas-unfunded-sender
>> {"jsonrpc":"2.0","id":1,"method":"eth_estimateGas","params":[{"from":"0xaa00000000000000000000000000000000000000","to":"0xbb00000000000000000000000000000000000000"},"latest"]}
<< {"jsonrpc":"2.0","id":1,"result":"0x5208"}
// eth_syncing-check-syncing
>> {"jsonrpc":"2.0","id":32,"method":"eth_syncing"}
<< {"jsonrpc":"2.0","id":32,"result":false}
// eth_getLogs-error-reversed-block-range
>> {"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"address":null,"fromBlock":"0x29","toBlock":"0x26","topics":null}]}
<< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid block range params"}}
// eth_getLogs-error-invalid-blockHash-and-range
>> {"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"blockHash":"0xa54da6f03fa509ff00f062ff00ab1352614307374d7664c6e40d9764252dd3a0","fromBlock":"0x3","toBlock":"0x4"}]}
<< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid argument 0: cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other"}}
// eth_getLogs-error-future-block-range
>> {"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"fromBlock":"0x32","toBlock":"0x38"}]}
<< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"block range extends beyond current head block"}}
