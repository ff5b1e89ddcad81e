"""Proofs: files that anybody checks offline, with genesis.json alone. `docs/formats.md` describes each of them."""

from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from cairn.api.bodies import JSON_MEDIA_TYPE, REVALIDATE, StreamedResponse, cache_headers, json_response, not_modified
from cairn.api.chain_view import ChainView
from cairn.api.parameters import (
    ACCOUNT,
    BLOCK_NAME,
    FIRST_BLOCK,
    KNOWN_BLOCK,
    LATER_BLOCK,
    PROVEN_HEIGHT,
    STATEMENT_FROM,
    STATEMENT_TO,
    TX_HASH,
    choice_of,
    number_of,
    parse_hash,
)
from cairn.api.proof_reads import ProofReads, Signed, encode_proof
from cairn.api.rest.lookups import Lookups
from cairn.api.rest.statements import Statement
from cairn.api.routing import Answer, Operation
from cairn.core.gateway import CoreGateway
from cairn.domain.crypto import keccak256, parse_address
from cairn.domain.errors import InvalidQuery
from cairn.domain.json_fields import about, hex_text, titled
from cairn.domain.proof_files import AccountFile, FinalityFile, HistoryFile, ProofFile, ReceiptFile, StatementFile
from cairn.domain.types import Address, TxHash
from cairn.time_shares import give_way

SENT_BYTES = 64 * 1024
"""Of a genesis.json, which may name a million accounts, in one step."""

GenesisJson = titled("Genesis", Annotated[dict[str, Any], about("The chain's rules, first balances and signers.")])


class Proofs:
    def __init__(self, gateway: CoreGateway, view: ChainView, lookups: Lookups) -> None:
        self._view = view
        self._lookups = lookups
        self._reads = ProofReads(gateway, view)
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

    # Blocks.

    @Operation("GET /block/{hash}/finality", "proofs", BLOCK_NAME, Answer("The file.", FinalityFile), 404)
    async def get_finality(self, request: Request) -> Response:
        """Prove that a block is final. The file says who signed it, or a later one whose history holds it.

        Instead of a hash or height, latest names the newest block that a signature covers. On a network the very latest
        one is signed with the next: asked for by its hash or height, it is answered with 404 NOT_SIGNED_YET until then.
        """
        named = request.path_params["hash"]
        height = None if named == "latest" else await self._lookups.find_height(named)
        signed = await self._reads.signed(height)
        block = self._reads.block(signed.height if height is None else height, signed)
        return self._answer(FinalityFile(certificate=signed.certificate, block=block), signed)

    @Operation(
        "GET /history/proof", "proofs", FIRST_BLOCK, LATER_BLOCK, KNOWN_BLOCK, Answer("The file.", HistoryFile), 404
    )
    async def get_history_proof(self, request: Request, query: Mapping[str, str]) -> Response:
        """Prove that history was only appended to between two blocks.

        The history of the later one begins with that of the earlier one. So whoever remembers the earlier one knows
        that nothing before it was rewritten. With `known=true`, put the header there that you remember: so a node that
        has removed the block can still show how history goes on from it.
        """
        first, last = number_of(query, "from"), number_of(query, "to")
        is_known = choice_of(query, "known", {"true": True, "false": False}, False)
        signed = await self._reads.signed(last)
        first = self._view.base if first is None else first
        last = signed.height if last is None else last
        if first >= last:
            raise InvalidQuery(f"from must be below to; they are {first} and {last}")
        file = HistoryFile(
            certificate=signed.certificate,
            first="0x" if is_known else self._reads.header(first),
            second=self._reads.block(last, signed),
            inclusion=self._reads.ancestor_path(first, last),
            consistency=self._reads.appended_path(first, last),
        )
        return self._answer(file, signed)

    # Payments.

    @Operation("GET /tx/{hash}/receipt", "proofs", TX_HASH, Answer("The file.", ReceiptFile), 404)
    async def get_receipt(self, request: Request) -> Response:
        """Prove that a payment is final. The file has the signed transaction, its block, and who signed that.

        On a network a block is signed with the next one: until then the answer is 404 NOT_SIGNED_YET.
        """
        tx_hash = TxHash(parse_hash(request.path_params["hash"], "transaction"))
        height, position = await self._lookups.find_place(tx_hash)
        signed = await self._reads.signed(height)
        block, payment = self._reads.block(height, signed), await self._reads.payment(height, position)
        return self._answer(ReceiptFile(certificate=signed.certificate, block=block, payment=payment), signed)

    # Accounts.

    @Operation("GET /account/{address}/proof", "proofs", ACCOUNT, PROVEN_HEIGHT, Answer("The file.", AccountFile), 404)
    async def get_account_proof(self, request: Request, query: Mapping[str, str]) -> Response:
        """Prove what an account holds, or held after an earlier block.

        It can also prove that an address holds nothing, because no payment ever named it. A node that does not keep all
        blocks can prove a height below its oldest one, unless the oldest one, or one that is gone, touched the account
        after it: then the answer is 404 BLOCK_NOT_KEPT.
        """
        address: Address = parse_address(request.path_params["address"], "address")
        held = await self._reads.held(address, number_of(query, "height"))
        file = AccountFile(
            certificate=held.signed.certificate,
            address=hex_text(address),
            height=held.height,
            state=held.state,
            change=held.next,
        )
        return self._answer(file, held.signed)

    @Operation(
        "GET /account/{address}/statement",
        "proofs",
        ACCOUNT,
        STATEMENT_FROM,
        STATEMENT_TO,
        Answer("The file.", StatementFile),
        404,
        422,
    )
    async def get_statement(self, request: Request, query: Mapping[str, str]) -> Response:
        """Prove all that happened to an account from one block to another.

        The file has what the account held before and after each block that touched it, with every payment. Each change
        names the one before, so nothing can be left out. It is sent as it is made. If more than 10,000 blocks touched
        the account, the answer is 422 STATEMENT_TOO_LONG, and says where to end the statement.
        """
        address: Address = parse_address(request.path_params["address"], "address")
        first, last = number_of(query, "from"), number_of(query, "to")
        if first is not None and last is not None and first > last:
            raise InvalidQuery(f"from must not be above to; they are {first} and {last}")
        if first is not None:
            await self._reads.check_made(first)
        held = await self._reads.held(address, last)
        if first is not None:
            self._reads.check_signed(first, held.signed)
        statement = Statement(self._view, self._reads, address, held)
        first = statement.opening(first)
        await statement.check_length(first)
        file = StatementFile(
            certificate=held.signed.certificate,
            address=hex_text(address),
            first=first,
            last=held.height,
            changes=[],
            state=held.state,
            next=held.next,
        )
        return StreamedResponse(statement.pieces(file), {}, JSON_MEDIA_TYPE)

    def _answer(self, file: ProofFile, signed: Signed) -> Response:
        self._reads.check_unchanged(signed)
        return json_response(encode_proof(file, signed))


async def in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), SENT_BYTES):
        yield content[start : start + SENT_BYTES]
        await give_way()
