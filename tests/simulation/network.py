"""A network: validators that agree under a scripted CometBFT, among liars and strangers; nodes come and go."""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from pathlib import Path

from cairn.core.service import Core
from cairn.domain.certificates import check_certificate, engine_chain_id, in_engine_order
from cairn.domain.crypto import address_of_key, keccak256, sign_digest
from cairn.domain.errors import EngineUnavailable, InvalidProof, NotSignedYet, Rejected, StoreUnavailable
from cairn.domain.governance import Admins, AdminsUpdate, Before, ValidatorRecord, ValidatorUpdate, encode_update
from cairn.domain.transactions import decode_tx, encode_unsigned, signed_bytes, signing_bytes
from cairn.domain.types import LEGACY, Address, Draft
from cairn.domain.updates import sign_update
from cairn.engine.abci import requests as m
from cairn.engine.abci.wire import proposed_size_bytes
from cairn.engine.network.bundle import encode_bundle
from cairn.engine.network.commits import EngineCommit
from cairn.engine.network.engine import NetworkEngine
from cairn.store.watermark import Watermark
from tests.simulation import ledger
from tests.simulation.comet import AbciServer, Comet, Decided, Down, snapshot_requests
from tests.simulation.disk import Machines, aside
from tests.simulation.ledger import Evidence, Transfer, Update
from tests.simulation.machinery import START_S, Clock
from tests.simulation.node import Node, Violation
from tests.simulation.setup import CHAIN_ID, Setup, public_key
from tests.simulation.threads import Turns
from tests.simulation.world import Action, World
from tests.support.commits import engine_header, seed_of, sign_commit

NS = 1_000_000_000


class NetworkWorld(World):
    def __init__(
        self, seed: int, root: Path, machines: Machines, clock: Clock, setup: Setup, without: frozenset[str]
    ) -> None:
        super().__init__(seed, root, machines, clock, setup, without)
        self.blocks = [Decided(0, (), 0, b"")]
        self.comets = [
            Comet(
                node,
                self.blocks,
                setup.comet_mempool_size,
                self._power_of,
                self._check_results,
                self._commit_of,
                self.violations,
            )
            for node in self.nodes
        ]
        self._engine_id = engine_chain_id(setup.genesis)
        self._seeds = {public_key(number): seed_of(number) for number in range(len(self.nodes) + 2)}
        self._validators = [self.ledger.head.validators] * 3
        """Who decides each height: an update acts two heights later."""
        self._final_commits: dict[int, EngineCommit] = {}
        self._copy_needs: dict[int, int] = {}
        """The oldest block that CometBFT must have for the copy of a node's disk to be of use."""
        for node, comet in zip(self.nodes, self.comets, strict=True):
            AbciServer.listening[node.socket] = comet

    def table(self) -> dict[str, tuple[Action, float]]:
        faults = self.setup.fault_rate
        return super().table() | {
            "round": (self._round, 25),
            "gossip": (self._gossip, 20),
            "work": (self._work, 10),
            "strangers": (self._strangers, 2),
            "update": (self._update, 1.5 if self.setup.genesis.admins else 0),
            "admins": (self._update_admins, 0.7 if self.setup.genesis.admins else 0),
            "comet": (self._end_comet, 0.7 * faults),
            "cut": (self._cut, 0.7),
            "sync": (self._state_sync, 0.5),
        }

    def more(self) -> dict[str, tuple[Action, float]]:
        changes = 4 if self.setup.genesis.admins else 0
        return super().more() | {"certify": (self._certify, 4), "change": (self._update, changes)}

    def buried(self, node: Node) -> None:
        comet = self.comets[node.number]
        comet.application = None
        comet.end()

    def kept_copy(self, node: Node) -> None:
        core = node.core
        assert core is not None
        assert isinstance(core.engine, NetworkEngine)
        self._copy_needs[node.number] = min(node.kept_told, core.engine._steps.oldest_missing) + 1

    def may_go_on_from_copy(self, node: Node) -> bool:
        # CometBFT has all blocks since, and those that the copy had not made its steps of.
        return self.comets[node.number].base <= self._copy_needs[node.number]

    def unfinished(self) -> list[str]:
        found = super().unfinished()
        for comet in self.comets:
            comet.is_online = True
            if not comet.is_running:
                found.append(f"the CometBFT of {comet.node.name} does not come back")
            elif comet.height < len(self.blocks) - 1:
                found.append(f"{comet.node.name} is at block {comet.height} of {len(self.blocks) - 1}")
        return found

    async def carry_on(self, rng: random.Random) -> None:
        await self._gossip(rng)
        await self._round(rng)

    def describe(self, node: Node) -> str:
        comet = self.comets[node.number]
        return f"{super().describe(node)} comet {comet.height}{'' if comet.is_running else '-'}"

    async def _work(self, rng: random.Random) -> None:
        """Let the threads that take snapshots and prune go on for a while."""
        for thread in list(Turns.started):
            for _ in range(rng.choice((0, 1, 3, 20))):
                thread.step()

    async def _gossip(self, rng: random.Random) -> None:
        """Each connected pair exchanges some of what it has; nobody gets all."""
        comets = [comet for comet in self.comets if comet.is_running and comet.is_online]
        rng.shuffle(comets)
        share = rng.choice((0.3, 1.0))
        for giver in comets:
            for taker in comets:
                for raw in giver.reap():
                    if raw not in taker.mempool and rng.random() < share:
                        await self._give(taker, raw)

    async def _give(self, comet: Comet, raw: bytes) -> None:
        try:
            await comet.check(raw)
        except Down:
            comet.end()

    async def _strangers(self, rng: random.Random) -> None:
        """A peer without stake sends what it likes."""
        comets = [comet for comet in self.comets if comet.is_running and comet.is_online]
        if comets:
            for _ in range(rng.randint(1, 4)):
                await self._give(rng.choice(comets), self._draw_raw(rng))

    def _draw_raw(self, rng: random.Random) -> bytes:
        known = [transfer.raw for transfer in list(self.ledger.transfers.values())[-30:]]
        if not known or rng.random() < 0.2:
            return rng.randbytes(rng.choice((0, 1, 40, 120)))
        kind = rng.random()
        if kind < 0.4:
            return rng.choice(known)
        if kind < 0.8:
            return encode_bundle([rng.choice(known) for _ in range(rng.randint(1, 6))])
        if kind < 0.84:
            return self._sign_too_long(rng)
        spoiled = self._spoil(rng, rng.choice(known))
        return spoiled if rng.random() < 0.5 else encode_bundle([rng.choice(known), spoiled])

    def _spoil(self, rng: random.Random, raw: bytes) -> bytes:
        """Change a bit. What comes out may be a transfer again, of whomever its signature then names."""
        spoiled = bytearray(raw)
        spoiled[rng.randrange(len(spoiled))] ^= 1 << rng.randrange(8)
        with contextlib.suppress(Rejected):
            tx = decode_tx(bytes(spoiled), CHAIN_ID, self.setup.genesis.gas_price)
            caps = tx.fee_cap, tx.tip_cap
            fields = tx.sender, tx.to, tx.nonce, tx.gas, *caps, tx.value, tx.data
            self.ledger.know(Transfer(tx.hash, bytes(spoiled), *fields))
        return bytes(spoiled)

    def _sign_too_long(self, rng: random.Random) -> bytes:
        """A signed transfer with more data than any chain allows."""
        sender, key = rng.choice(list(self.setup.keys.items()))
        nonce, data = self.ledger.head.account(sender)[1], bytes(rng.choice((257, 300, 70_000)))
        draft = Draft(sender, sender, 0, 10**6, self.setup.genesis.gas_price, nonce, data=data)
        unsigned = encode_unsigned(draft, nonce, CHAIN_ID)
        signature = sign_digest(keccak256(signing_bytes(LEGACY, unsigned, CHAIN_ID)), key)
        return signed_bytes(LEGACY, unsigned, signature, CHAIN_ID)

    async def _round(self, rng: random.Random) -> None:
        """One round: somebody proposes, the others judge, and perhaps it is decided."""
        height = len(self.blocks)
        await self._catch_up(rng)
        present = [comet for comet in self.comets if comet.is_in_consensus and comet.height == height - 1]
        validators = self._validators[height]
        proposer = rng.choice(self.comets)
        key = public_key(proposer.node.number)
        if key not in validators or not present:
            return
        lies = proposer.node.number in self.setup.liars and rng.random() < 0.3
        misbehavior = self._draw_misbehavior(rng, height)
        raws = await self._propose(rng, proposer, height, lies, misbehavior)
        if raws is None or (proposer not in present and not lies):
            return
        absent = self._draw_absent(rng, height - 1)
        block = Decided(height, tuple(raws), self._block_time_ns(rng), _engine_address(key), misbehavior, absent)
        power = await self._judge(rng, present, block, honest=not lies)
        total = sum(each for each, _ in validators.values())
        captured = self.setup.is_captured and lies
        if not captured and (3 * power <= 2 * total or rng.random() < 0.1):
            self.tally.count("rounds that decided nothing")
            return
        # The state is two blocks ahead of who may decide: one that it no longer has is still paid.
        _, fee_recipient = self.ledger.head.validators.get(key, validators[key])
        self._decide(block, fee_recipient)
        rng.shuffle(present)
        for comet in present:
            if rng.random() < 0.85:
                await self._apply(comet, block)

    def _draw_absent(self, rng: random.Random, height: int) -> tuple[bytes, ...]:
        """Who did not vote for a block; it was decided, so more than two thirds of the power did."""
        validators = self._validators[height]
        left = total = sum(power for power, _ in validators.values())
        absent = []
        for key, (power, _) in validators.items():
            if rng.random() < 0.2 and 3 * (left - power) > 2 * total:
                left -= power
                absent.append(_engine_address(key))
        return tuple(absent)

    def _commit_of(self, height: int, is_final: bool) -> EngineCommit:
        """The votes for a block: those in the next one, or of all, which a node may have seen before."""
        if is_final and height in self._final_commits:
            return self._final_commits[height]
        validators, following = (
            in_engine_order((key, power) for key, (power, _) in self._validators[at].items())
            for at in (height, height + 1)
        )
        app_hash = self.blocks[height - 1].app_hash
        assert app_hash is not None
        header = engine_header(self._engine_id, height, app_hash, validators, following)
        absent = self.blocks[height + 1].absent if is_final else ()
        keys = [member.key for member in validators if _engine_address(member.key) in absent]
        made = sign_commit(header, validators, self._seeds, keys, round=height % 3, is_canonical=is_final)
        if is_final:
            self._final_commits[height] = made
        return made

    async def _certify(self, rng: random.Random) -> None:
        """Somebody asks every node for the certificate of a block."""
        for comet in self.comets:
            core = comet.node.core
            if core is not None and not core.failed.done():
                chain = core._chain
                height = rng.choice((None, chain.visible, rng.randint(chain.base, chain.visible)))
                # Who cannot read its disk says so, and is opened anew.
                with contextlib.suppress(StoreUnavailable):
                    await self._check_certificate(comet, core, height)

    async def last_look(self) -> None:
        for comet in self.comets:
            core = comet.node.core
            assert core is not None
            await self._check_certificate(comet, core, None)
            changes, final = len(core._chain.steps()), self._count_changes(core.head - 2)
            if changes < final:
                raise Violation("steps", f"{comet.node.name} has {changes} changes of validators signed of {final}")
            self.tally.count("steps stored", changes)

    def _count_changes(self, height: int) -> int:
        """How many blocks up to this one changed the powers of the validators."""
        sets = [{key: power for key, (power, _) in each.validators.items()} for each in self.ledger.states]
        return sum(sets[at] != sets[at - 1] for at in range(1, height + 1))

    async def _check_certificate(self, comet: Comet, core: Core, height: int | None) -> None:
        """It is checked with nothing but the genesis."""
        head, was_running = core.head, comet.is_running
        try:
            certificate = await core.certificate(height)
        except NotSignedYet:
            if was_running and comet.base <= head and (height or 0) <= self._named_by(head):
                raise Violation("certificate", f"{comet.node.name} has none for block {height} at {head}") from None
            self.tally.count("blocks not signed yet")
            return
        except EngineUnavailable as failure:
            if comet.is_running and was_running:
                raise Violation("certificate", f"{comet.node.name}: {failure.detail}") from None
            return
        try:
            proven = check_certificate(certificate, self.setup.genesis)
        except InvalidProof as wrong:
            raise Violation("certificate", f"{comet.node.name} gives one that proves nothing: {wrong}") from None
        if height is not None and proven.header.height < height:
            raise Violation("certificate", f"{comet.node.name} gives that of block {proven.header.height} for {height}")
        self.invariants.check_hash(comet.node, proven.header.height, proven.hash)
        self.tally.count("certificates checked")
        self.tally.count("steps checked", proven.changes)

    def _named_by(self, height: int) -> int:
        """The block that CometBFT's header of this height names."""
        app_hash = self.blocks[height - 1].app_hash
        return next(at for at, block in enumerate(self.blocks) if block.app_hash == app_hash)

    def _block_time_ns(self, rng: random.Random) -> int:
        return int((START_S + self._clock.monotonic() + rng.choice((0, 0, 1, -5, 3_600))) * NS)

    def _draw_misbehavior(self, rng: random.Random, height: int) -> tuple[m.Misbehavior, ...]:
        """Now and then evidence against whoever was a validator, or against somebody that nobody knows any more."""
        if rng.random() > 0.05:
            return ()
        keys = [*self._validators[rng.randrange(height)], bytes(32)]
        return tuple(
            m.Misbehavior(rng.choice((1, 1, 2, 7)), _engine_address(rng.choice(keys)), rng.randint(1, height), NS)
            for _ in range(rng.randint(1, 3))
        )

    async def _propose(
        self, rng: random.Random, proposer: Comet, height: int, lies: bool, misbehavior: tuple[m.Misbehavior, ...]
    ) -> Sequence[bytes] | None:
        if lies:
            self.tally.count("Byzantine proposals")
            return self._draw_proposal(rng, proposer)
        if not proposer.is_running or not proposer.is_online or proposer.height != height - 1:
            return None
        offered = tuple(proposer.reap())
        key = public_key(proposer.node.number)
        request = m.PrepareProposalRequest(
            offered,
            height,
            self._block_time_ns(rng),
            _engine_address(key),
            misbehavior,
            max_tx_bytes=self.setup.max_tx_bytes,
        )
        try:
            raws: Sequence[bytes] = await proposer.call("prepare_proposal", request)
        except Down:
            proposer.end()
            return None
        if sum(map(proposed_size_bytes, raws)) > self.setup.max_tx_bytes:
            raise Violation("proposal", f"{proposer.node.name} proposes more than CometBFT can take")
        return raws

    def _draw_proposal(self, rng: random.Random, proposer: Comet) -> list[bytes]:
        raws = proposer.reap()
        rng.shuffle(raws)
        raws += [self._draw_raw(rng) for _ in range(rng.randint(0, 3))]
        raws += [rng.choice(list(self.ledger.updates))] if self.ledger.updates and rng.random() < 0.2 else []
        return raws[: rng.randint(0, len(raws))]

    async def _judge(self, rng: random.Random, present: list[Comet], block: Decided, honest: bool) -> int:
        """The power of those who find it good."""
        expected = self.ledger.judge(block.raws)
        if honest and not expected:
            raise Violation("proposal", f"an honest proposal for block {block.height} breaks a rule")
        power = 0
        for comet in present:
            if rng.random() < 0.1:
                continue
            try:
                verdict: bool = await comet.call("process_proposal", block.request(m.ProcessProposalRequest))
            except Down:
                comet.end()
                continue
            if verdict != expected:
                raise Violation("verdict", f"{comet.node.name} finds a proposal for block {block.height} {verdict}")
            power += self._power_of(comet.node, block.height) if verdict else 0
        return power

    def _power_of(self, node: Node, height: int) -> int:
        return self._validators[height].get(public_key(node.number), (0, b""))[0]

    def _decide(self, block: Decided, fee_recipient: bytes) -> None:
        self.blocks.append(block)
        # A kind that is not known is kept as such.
        evidence = [
            Evidence(each.kind if each.kind in (1, 2) else 0, each.engine_address, each.height)
            for each in block.misbehavior
        ]
        made = self.ledger.decide(block.raws, fee_recipient, evidence)
        self.tally.count("evidence", len(evidence))
        self._validators.append(self.ledger.head.validators)
        self.tally.count("blocks")
        self.tally.count("blocks that hold what breaks a rule", made.refused > 0)
        self.tally.count("validator changes", self.ledger.head.sequence - self.ledger.states[-2].sequence)
        self.tally.count("transfers confirmed", len(made.transfers))

    async def _apply(self, comet: Comet, block: Decided) -> None:
        try:
            await comet.apply(block)
        except Down:
            comet.end()

    async def _catch_up(self, rng: random.Random) -> None:
        """Those behind fetch blocks, if need be from a node outside of this network that keeps them all."""
        for comet in self.comets:
            while (
                comet.is_running and comet.is_online and not comet.state_syncs and comet.height < len(self.blocks) - 1
            ):
                await self._apply(comet, self.blocks[comet.height + 1])
                if rng.random() < 0.2:
                    break

    def _check_results(self, node: Node, block: Decided, response: m.FinalizeBlockResponse) -> None:
        if len(response.tx_results) != len(block.raws):
            raise Violation("results", f"{node.name} gives {len(response.tx_results)} results for {len(block.raws)}")
        before = {key: power for key, (power, _) in self.ledger.states[block.height - 1].validators.items()}
        after = {key: power for key, (power, _) in self.ledger.states[block.height].validators.items()}
        expected = {key: after.get(key, 0) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        if {each.public_key: each.power for each in response.validator_updates} != expected:
            raise Violation("validators", f"{node.name} gives other validator updates for block {block.height}")

    async def _update(self, rng: random.Random) -> None:
        """An administrator changes the validators, or tries to."""
        number = rng.randrange(len(self.nodes) + 2)
        fees = rng.choice([*self.setup.keys, *self.setup.strangers])
        validator = ValidatorRecord(public_key(number), rng.choice((0, 1, 10, 25)), fees, f"v{number}")
        # Without its power the network would stand for ever: no node runs a validator that only exists on paper.
        if number >= len(self.nodes) or (validator.power == 0 and len(self.ledger.head.validators) < 3):
            validator = ValidatorRecord(public_key(0), 10, fees, "v0")
        sequence = self.ledger.head.sequence + rng.choice((0, 0, 0, 1))
        if rng.random() < 0.1:
            # As a file that shows another validator than it changes.
            validator = ValidatorRecord(validator.public_key, validator.power, validator.fee_recipient, "another")
        before = self.ledger.before(validator.public_key, validator.name)
        if rng.random() < 0.1:
            before = (before[0], before[1] + 1, before[2], before[3])
        keys = self._draw_signers(rng)
        raw = encode_update(
            sign_update(ValidatorUpdate(sequence, validator, Before(*before)), keys, self.setup.identity)
        )
        signers = tuple(_addresses(keys))
        self.ledger.updates[raw] = Update(
            raw, sequence, validator.public_key, validator.power, bytes(fees), signers, validator.name, before
        )
        await self._give_to_all(raw)

    async def _update_admins(self, rng: random.Random) -> None:
        """The administrators change themselves, or try to."""
        known = rng.sample(self.setup.admin_keys, rng.randint(1, len(self.setup.admin_keys)))
        # As long as the first one is among them, there is somebody whose keys the simulator has.
        addresses = tuple(dict.fromkeys(_addresses([self.setup.admin_keys[0], *known])))
        wanted = ledger.Admins(rng.randint(1, len(addresses)), addresses)
        head = self.ledger.head
        before = head.admins if head.admins is not None and rng.random() < 0.9 else wanted
        keys = self._draw_signers(rng)
        unsigned = AdminsUpdate(head.sequence, _domain_admins(wanted), _domain_admins(before))
        raw = encode_update(sign_update(unsigned, keys, self.setup.identity))
        self.ledger.updates[raw] = ledger.AdminsUpdate(raw, head.sequence, wanted, before, tuple(_addresses(keys)))
        await self._give_to_all(raw)

    def _draw_signers(self, rng: random.Random) -> list[bytes]:
        return rng.sample(self.setup.admin_keys, rng.randint(1, len(self.setup.admin_keys)))

    async def _give_to_all(self, raw: bytes) -> None:
        for comet in self.comets:
            if comet.is_running:
                await self._give(comet, raw)

    async def _end_comet(self, rng: random.Random) -> None:
        comet = rng.choice(self.comets)
        application = comet.application
        comet.end()
        if application is not None:
            comet.application_listens(application)

    async def _cut(self, rng: random.Random) -> None:
        comet = rng.choice(self.comets)
        comet.is_online = not comet.is_online

    async def _state_sync(self, rng: random.Random) -> None:
        """A node joins with an empty directory, from a snapshot of a peer."""
        comet = rng.choice(self.comets[1:])
        await self._join(rng, comet)
        while self._is_half_joined(comet):
            # It ended after the last part, before CometBFT had noted that: it is offered the same one again, or the
            # operator begins once more.
            if comet.node.disk.is_dead:
                await self.raise_again(comet.node)
                await asyncio.sleep(1.0)
            core = comet.node.core
            if core is not None and comet.is_running and rng.random() < 0.8:
                await self.guarded(self._take_snapshot(rng, comet, core.head))
            else:
                await self._join(rng, comet)

    def _is_half_joined(self, comet: Comet) -> bool:
        path = comet.node.disk.path / "watermark"
        if comet.height or not path.exists():
            return False
        with aside(), contextlib.closing(Watermark.follow(path)) as watermark:
            return watermark.height() > 0

    async def _join(self, rng: random.Random, comet: Comet) -> None:
        node = comet.node
        await node.stop()
        if node.disk.is_dead:
            return
        node.disk.wipe()
        self.forget(node)
        comet.wipe()
        comet.state_syncs = True
        node.start()
        await asyncio.sleep(1.0)
        await self.guarded(self._take_snapshot(rng, comet))
        comet.state_syncs = self._is_half_joined(comet)
        if comet.application is not None and comet.height == 0 and not comet.state_syncs:
            comet.end()
            await self.guarded(comet.start())

    async def _take_snapshot(self, rng: random.Random, comet: Comet, height: int = 0) -> None:
        """One of this height, if any is given."""
        for peer in rng.sample(self.comets, len(self.comets)):
            if peer is comet or not peer.is_running:
                continue
            offered: Sequence[m.Snapshot] = await peer.call("list_snapshots")
            for snapshot in reversed([each for each in offered if height in (0, each.height)]):
                try:
                    if await self._take_in(rng, comet, peer, snapshot, is_here=height > 0):
                        self.tally.count("state syncs")
                        return
                except Down:
                    return

    async def _take_in(
        self, rng: random.Random, comet: Comet, peer: Comet, snapshot: m.Snapshot, is_here: bool
    ) -> bool:
        """As CometBFT does it, with a part altered now and then; one that is here already is not looked at again."""
        trusted = self.blocks[snapshot.height].app_hash
        if peer.base > snapshot.height + 1:
            raise Violation(
                "snapshot", f"{peer.node.name} let go of blocks that its snapshot of {snapshot.height} needs"
            )
        assert trusted is not None
        answer = await comet.call("offer_snapshot", m.OfferSnapshotRequest(snapshot, trusted))
        if answer is not m.OfferSnapshotResult.ACCEPT:
            raise Violation("snapshot", f"{comet.node.name} refuses the snapshot of block {snapshot.height}: {answer}")
        for request in snapshot_requests(snapshot):
            chunk = await self._load_part(peer, request)
            if rng.random() < 0.3 and not is_here:
                spoiled = bytearray(chunk)
                spoiled[rng.randrange(len(spoiled))] ^= 1
                await self._expect(comet, request.chunk, bytes(spoiled), m.ApplySnapshotChunkResult.RETRY)
            await self._expect(comet, request.chunk, chunk, m.ApplySnapshotChunkResult.ACCEPT)
        info: m.InfoResponse = await comet.call("info")
        if info.last_block_height != snapshot.height or info.last_block_app_hash != trusted:
            raise Violation("snapshot", f"{comet.node.name} is at block {info.last_block_height} after a snapshot")
        comet.synced(snapshot.height)
        return True

    async def _load_part(self, peer: Comet, request: m.LoadSnapshotChunkRequest) -> bytes:
        """A part that cannot be read is as one that is not there; CometBFT asks again."""
        met = peer.node.disk.met
        while True:
            failed = met["reads that failed"]
            chunk: bytes = await peer.call("load_snapshot_chunk", request)
            if chunk:
                return chunk
            if met["reads that failed"] == failed:
                raise Violation("snapshot", f"{peer.node.name} does not have part {request.chunk} of its snapshot")

    async def _expect(self, comet: Comet, index: int, chunk: bytes, expected: m.ApplySnapshotChunkResult) -> None:
        request = m.ApplySnapshotChunkRequest(index, chunk, "peer")
        answer: m.ApplySnapshotChunkResponse = await comet.call("apply_snapshot_chunk", request)
        if answer.result is not expected:
            raise Violation("snapshot", f"part {index} of a snapshot is answered with {answer.result.name}")


def _engine_address(key: bytes) -> bytes:
    return ValidatorRecord(key, 1, Address(bytes(20))).engine_address


def _domain_admins(admins: ledger.Admins) -> Admins:
    return Admins(admins.threshold, tuple(map(Address, admins.addresses)))


def _addresses(keys: Sequence[bytes]) -> list[bytes]:
    return [bytes(address_of_key(key)) for key in keys]
