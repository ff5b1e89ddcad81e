"""A shop that reacts to payments: the reference of a payment says which order it is for."""

import asyncio

from cairn.client import COIN, Account, AsyncClient

PRICES = {"order 1": 3 * COIN, "order 2": 4 * COIN}
SHOP = Account.dev(1).address


async def serve(node: AsyncClient, from_height: int) -> None:
    """Ship each order once it is paid in full; a part may come first."""
    due = dict(PRICES)
    async for payment in node.payments(SHOP, from_height):
        order = payment.reference
        if order not in due:
            print(f"refund {payment.value // COIN} coins for {order}", flush=True)
            continue
        due[order] -= payment.value
        print(f"{order}: {due[order] // COIN} of {PRICES[order] // COIN} coins are left to pay", flush=True)
        if due[order] <= 0:
            print(f"{order}: shipped", flush=True)
            del due[order]
        if not due:
            return


async def main() -> None:
    async with AsyncClient("http://127.0.0.1:8645") as node:
        serving = asyncio.create_task(serve(node, (await node.chain()).head.block_height + 1))

        # The customers, who would be elsewhere.
        customer = node.wallet(Account.dev(2))
        for coins, order in ((3, "order 1"), (1, "order 2"), (3, "order 1"), (3, "order 2")):
            await node.wait(await customer.send(SHOP, coins * COIN, reference=order))
        await serving


asyncio.run(main())
