"""A wallet that knows nothing of ours: eth-account signs, and a transfer is the JSON body that anyone would send."""

from dataclasses import dataclass
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount

DEV_CHAIN_ID = 1337
GWEI = 10**9
COIN = 10**18
TRANSFER_FEE = 21_000 * GWEI
DEV_MNEMONIC = "test test test test test test test test test test test junk"


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed transfer: what is posted, and the hash that every Ethereum library gives it."""

    body: dict[str, Any]
    tx_hash: str

    def without(self, *fields: str) -> dict[str, Any]:
        return {name: value for name, value in self.body.items() if name not in fields}

    def with_fields(self, **fields: object) -> dict[str, Any]:
        return self.body | fields


def dev_account(index: int) -> LocalAccount:
    Account.enable_unaudited_hdwallet_features()
    account: LocalAccount = Account.from_mnemonic(DEV_MNEMONIC, account_path=f"m/44'/60'/0'/0/{index}")
    return account


def new_account() -> LocalAccount:
    account: LocalAccount = Account.create()
    return account


def sign_transfer(
    sender: LocalAccount,
    to: str,
    value: int,
    nonce: int,
    *,
    gas: int = 21_000,
    gas_price: int = GWEI,
    chain_id: int = DEV_CHAIN_ID,
    data: bytes = b"",
) -> Signed:
    fields: dict[str, Any] = {
        "nonce": nonce,
        "gasPrice": gas_price,
        "gas": gas,
        "to": to,
        "value": value,
        "chainId": chain_id,
        "data": data,
    }
    signed = sender.sign_transaction(fields)
    parity = signed.v - 35 - 2 * chain_id
    body = {
        "from": sender.address,
        "to": to,
        "value": value,
        "nonce": nonce,
        "gas": gas,
        "gasPrice": gas_price,
        "signature": f"0x{signed.r:064x}{signed.s:064x}{parity:02x}",
    }
    if data:
        body["data"] = "0x" + data.hex()
    return Signed(body, "0x" + bytes(signed.hash).hex())
