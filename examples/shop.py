"""A shop that reacts to payments: each order has an address of its own, and is shipped once it is paid."""

import asyncio

from cairn.client import COIN, Account, AsyncClient

PRICES = {"coffee": 3 * COIN, "cake": 4 * COIN}


async def serve(node: AsyncClient, item: str, till: Account, from_height: int) -> None:
    """Wait until the order is paid in full; a part may come first."""
    received = 0
    async for payment in node.payments(till.address, from_height):
        received += payment.value
        print(f"{item}: {received // COIN} of {PRICES[item] // COIN} coins", flush=True)
        if received >= PRICES[item]:
            print(f"{item}: shipped", flush=True)
            return


async def main() -> None:
    async with AsyncClient("http://127.0.0.1:8645") as node, asyncio.TaskGroup() as orders:
        height = (await node.chain()).head.block_height
        tills = {item: Account.create() for item in PRICES}
        for item, till in tills.items():
            orders.create_task(serve(node, item, till, height))

        # The customers, who would be elsewhere.
        customer = node.wallet(Account.dev(2))
        await node.wait(await customer.send(tills["coffee"].address, 3 * COIN))
        await node.wait(await customer.send(tills["cake"].address, 1 * COIN))
        await customer.send(tills["cake"].address, 3 * COIN)


asyncio.run(main())
