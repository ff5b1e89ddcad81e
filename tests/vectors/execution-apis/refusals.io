// eth_sendRawTransaction/send-already-known
<< {"jsonrpc":"2.0","id":2,"error":{"code":1000,"message":"already known"}}
// eth_sendRawTransaction/send-insufficient-funds
<< {"jsonrpc":"2.0","id":1,"error":{"code":809,"message":"insufficient funds for gas * price + value: balance 1000000000000000000000000000000000001, tx cost 1000000000000000000000002290876125002, overshot 2290876125001"}}
// eth_sendRawTransaction/send-intrinsic-gas-too-low
<< {"jsonrpc":"2.0","id":1,"error":{"code":800,"message":"intrinsic gas too low: gas 1, minimum needed 21000"}}
// eth_sendRawTransaction/send-nonce-too-low
<< {"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"nonce too low: next nonce 160, tx nonce 0"}}
// eth_sendRawTransaction/send-replacement-underpriced
<< {"jsonrpc":"2.0","id":2,"error":{"code":1002,"message":"replacement transaction underpriced"}}
// eth_sendRawTransaction/send-tx-gas-exceeds-block-limit
<< {"jsonrpc":"2.0","id":1,"error":{"code":803,"message":"exceeds block gas limit"}}
