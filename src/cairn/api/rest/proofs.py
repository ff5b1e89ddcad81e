"""Proofs: files that anybody checks offline, with genesis.json alone. `docs/formats.md` describes each of them."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.bodies import JSON_MEDIA_TYPE, REVALIDATE, StreamedResponse, cache_headers, not_modified
from cairn.api.chain_json import hex_text
from cairn.api.chain_view import ChainView
from cairn.api.routing import Answer, Operation
from cairn.domain.crypto import keccak256
from cairn.domain.json_fields import about, titled
from cairn.time_shares import give_way

SENT_BYTES = 64 * 1024
"""Of a genesis.json, which may name a million accounts, in one step."""

GenesisJson = titled("Genesis", Annotated[dict[str, Any], about("The chain's rules, first balances and signers.")])


class Proofs:
    def __init__(self, view: ChainView) -> None:
        self._view = view
        self._genesis_tag = hex_text(keccak256(view.genesis_file))

    @Operation("GET /genesis", "proofs", Answer("The file genesis.json.", GenesisJson, ("ETag",)))
    async def get_genesis(self, request: Request) -> Response:
        """Get the chain's genesis.json. These are exactly the bytes that `cairn init` writes.

        Their keccak-256 is the chain's genesis digest, which every signature covers; the ETag has it, too. Whoever
        checks proofs needs this file from somebody whom they trust: a node that lies about payments can lie about this,
        too.
        """
        known = not_modified(request, self._genesis_tag, REVALIDATE)
        if known is not None:
            return known
        return StreamedResponse(
            in_pieces(self._view.genesis_file), cache_headers(self._genesis_tag, REVALIDATE), JSON_MEDIA_TYPE
        )


async def in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), SENT_BYTES):
        yield content[start : start + SENT_BYTES]
        await give_way()
