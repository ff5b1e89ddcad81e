"""Pay from one dev account to another with web3.py: the node signs."""

from web3 import Web3

w3 = Web3(Web3.HTTPProvider("http://127.0.0.1:8645/rpc"))
sender, recipient = list(w3.eth.accounts)[:2]
sent = w3.eth.send_transaction({"from": sender, "to": recipient, "value": w3.to_wei(1, "ether")})
print("confirmed in block", w3.eth.wait_for_transaction_receipt(sent)["blockNumber"])
