"""Pay somebody, and wait until it is final."""

from cairn.client import COIN, Account, Client, errors

alice, bob = Account.dev(0), Account.dev(1)

with Client("http://127.0.0.1:8645") as node:
    wallet = node.wallet(alice)
    sent = wallet.send(bob.address, 3 * COIN, reference="invoice 4711")
    print("sent", sent)
    tx = node.wait(sent)
    print(f"confirmed in block {tx.block_height}: {tx.value // COIN} coins for {tx.reference}, fee {tx.fee} wei")

    try:
        wallet.send(bob.address, 1_000_000 * COIN)
    except errors.InsufficientFunds as refusal:
        print("refused with", refusal.code)
