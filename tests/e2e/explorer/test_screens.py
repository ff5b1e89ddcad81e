"""Every view at every width: nothing leaves the window, a card or its own line.

`EXPLORER_SCREENS=DIRECTORY` also takes the pictures, light and dark, into that directory.
"""

import pytest

from cairn.domain.types import intrinsic_gas
from tests.e2e.explorer.conftest import RICH, Visit
from tests.e2e.explorer.screens import misfits
from tests.support.public import PublicNode
from tests.support.wallet import COIN, dev_account, new_account, sign_transfer

REFERENCE = b"invoice 4711 of the eleventh month, second reminder"


@pytest.fixture(scope="module")
def crowded(node: PublicNode) -> dict[str, str]:
    """Routes to every view of a chain with amounts of many digits, references and a queued transaction."""
    long = 1_876 * COIN + 123_456_789_012_345_678
    sender = node.fund(1_999)
    reference = {"data": "0x" + REFERENCE.hex(), "gas": intrinsic_gas(REFERENCE)}
    transfer = {"from": RICH, "to": dev_account(1).address, "value": str(COIN // 3)} | reference
    node.await_confirmed(node.submit(sign_transfer(sender, new_account().address, long, 0)))
    paid = node.await_confirmed(node.post(transfer).json()["txHash"])
    node.post(transfer | {"nonce": node.next_nonce(RICH) + 2, "value": str(long)})
    block = paid["blockHeight"]
    return {
        "overview": "/",
        "blocks": "/blocks",
        "block": f"/block/{block}",
        "transactions": "/txs",
        "transactions-of": f"/txs?account={RICH}",
        "transaction": f"/tx/{paid['txHash']}",
        "accounts": "/accounts",
        "account": f"/account/{RICH}",
        "mempool": "/mempool",
        "send": "/send",
        "faucet": "/faucet",
        "status": "/status",
        "validators": "/validators",
        "nothing": f"/search?q={'z' * 90}",
        "checksum": f"/account/{RICH.replace('f3', 'F3', 1)}",
        "no-view": "/no/such/view",
    }


def test_every_view_fits_every_window(visit: Visit, crowded: dict[str, str]) -> None:
    visitor = visit()
    visitor.open("/start")
    wrong = []
    for name, route in crowded.items():
        visitor.go(route)
        wrong += misfits(visitor, name)
    assert not wrong, "\n".join(wrong)
