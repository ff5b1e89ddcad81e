"""Follow the chain from its first block on: what was stored, then what comes."""

from contextlib import closing

from cairn.client import Account, Client

with Client("http://127.0.0.1:8645") as node:
    wallet = node.wallet(Account.dev(4))
    with closing(node.blocks(from_height=0)) as blocks:
        for block in blocks:
            print(f"block {block.block_height} has {len(block.transactions)} transactions, {block.hash[:10]}…")
            if block.block_height == 3:
                break
            # On a quiet dev chain blocks come with transactions.
            node.wait(wallet.send(wallet.address, 0))
