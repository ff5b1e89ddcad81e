"""Many payments at once from one account: signed here, sent together, each confirmed or refused by itself."""

import asyncio

from cairn.client import GWEI, Account, AsyncClient, ClientError, Confirmed


async def main() -> None:
    async with AsyncClient("http://127.0.0.1:8645") as node:
        wallet = node.wallet(Account.dev(3))
        payroll = [(Account.create().address, number * GWEI, f"salary {number}") for number in range(500)]
        payroll[250] = ("0x123", 1, "salary 250")

        results = await wallet.send_all(payroll)
        for (to, *_), result in zip(payroll, results, strict=True):
            if isinstance(result, ClientError):
                print(f"not sent to {to}: {result}")
        hashes = [result for result in results if isinstance(result, str)]
        print(len(hashes), "sent")

        confirmed = 0
        async for outcome in node.confirmations(hashes):
            confirmed += isinstance(outcome, Confirmed)
        print(confirmed, "confirmed")


asyncio.run(main())
