"""The frontier as a plain Python model: what a random test believes must be in Redis.

The model does not predict which of several equal domains is served next; it checks each grant
against what it knows and then takes the entry from its own queues. Times are of the frontier clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

from crawlstream.keys import encode_id
from crawlstream.model.crawl import Budgets, CrawlKey, Lease
from crawlstream.model.effects import UNSENT, Command
from crawlstream.model.recurring.schedule import Occasion
from crawlstream.model.throttle_table import ThrottleRule
from support.frontier.bench import GRACE_MS, url_of
from support.frontier.values import (
    Again,
    Domain,
    Found,
    Generation,
    Held,
    Item,
    Place,
    Spilled,
    grant_order,
)
from support.frontier.world import World
from support.gates.gating import Gates, allowance
from support.scores import hosting, promoting

RETRY_STEP = -10
DEADLINE_MS = 30_000
MAX_DEATHS, MAX_REAPS = 3, 20


class Model:
    """Queues, leases, ledgers and dedupe of a small world."""

    def __init__(self, rule: ThrottleRule, world: World) -> None:
        self.world = world
        self.latest: dict[CrawlKey, Generation] = {}
        self.generations: list[Generation] = []
        self.queues: dict[tuple[str, str], dict[tuple[Generation, int], deque[Item]]] = {}
        self.delayed: list[tuple[int, int, bool, Item]] = []
        self.leases: dict[str, dict[str, Held]] = {}
        self.deadlines: dict[str, int] = {}
        self.domains: dict[str, Domain] = {}
        self.gates = Gates()
        self.stops: dict[CrawlKey, Place] = {}
        self.again: dict[int, list[Again]] = {}
        """Records to read again, by Kafka partition."""
        self.default = rule
        self.recalled: dict[str, set[str]] = {}
        """Names of records that came back before their page was settled, by worker."""
        self.owed: Counter[tuple[str, CrawlKey, int]] = Counter()
        self.restarted_at = -1_000_000
        self.run_floor = 0
        self.occasions: set[tuple[str, Occasion]] = set()
        """Occasions that took effect, with their application."""
        self.heads: dict[tuple[str, str, Generation, int], int] = {}
        """How many entries can be leased of a band whose next ones are on the shelf."""
        self._turn = 0

    # Seeds and stops.

    def was_stopped(self, crawl: CrawlKey, place: Place) -> bool:
        """Return whether a seed precedes its stop, or is older than that of another partition."""
        stop = self.stops.get(crawl)
        if stop is None:
            return False
        if stop.partition == place.partition:
            return stop.offset > place.offset
        return stop.at > place.at

    def enters_again(self, crawl: CrawlKey, place: Place) -> bool:
        """Return whether a seed that was read before has to take effect again."""
        return not self.was_stopped(crawl, place) and any(
            (one.crawl == crawl and one.after < place.at and one.begin <= place.offset < one.end)
            for one in self.again.get(place.partition, ())
        )

    def read_again(self, partition: int, start: int, end: int) -> None:
        """The records of a partition in these offsets have been read."""
        moved = [
            replace(one, begin=end) if start <= one.begin < end else one
            for one in self.again.get(partition, ())
        ]
        self.again[partition] = [one for one in moved if one.begin < one.end]

    def is_first(self, appid: str, occasion: Occasion | None) -> bool:
        """Return whether a record is the first that names its occasion, or names none."""
        if occasion is None:
            return True
        known = (appid, occasion) in self.occasions
        self.occasions.add((appid, occasion))
        return not known

    def feed(
        self,
        crawl: CrawlKey,
        item: Item,
        *,
        expires: int,
        place: Place,
        remember: int | None = None,
        occasion: Occasion | None = None,
        budgets: Budgets | None = None,
    ) -> str | int:
        """A seed: the run it enters, or "stopped"."""
        if self.was_stopped(crawl, place):
            if crawl in self.latest:
                self.latest[crawl].filtered["stopped"] += 1
            return "stopped"
        generation = self._open(crawl, prolongs=expires != 1)
        partition = place.partition
        at, offset = generation.first_seeds.get(partition, (place.at, place.offset))
        if place.offset < offset:
            at, offset = min(at, place.at), place.offset
        generation.first_seeds[partition] = at, offset
        latest = generation.latest_seeds.get(partition, 0)
        generation.latest_seeds[partition] = max(latest, place.at)
        order = (place.at, partition, place.offset)
        generation.set_end(expires, budgets, order)
        if remember is not None and order > generation.remember_by:
            generation.remember, generation.remember_by = remember, order
        if occasion is not None:
            named = f"{encode_id(crawl.appid)}:{occasion.schedule}:{occasion.at}"
            generation.occasion = max(generation.occasion or "", named)
        item.of = generation
        best = item.priority if generation.top is None else max(generation.top, item.priority)
        generation.top = best
        return generation.run

    def _open(self, crawl: CrawlKey, *, prolongs: bool) -> Generation:
        latest = self.latest.get(crawl)
        if latest and latest.takes_seeds and latest.state == "running":
            if not (latest.over_time and prolongs):
                latest.idle_since = None
                return latest
            self.close(latest, "expiring")
        run = latest.run if latest else self.run_floor
        if latest is None or not latest.takes_seeds:
            latest = Generation(crawl)
            self.latest[crawl] = latest
            self.generations.append(latest)
        latest.run, latest.state, latest.over_time = run + 1, "running", False
        latest.is_paused, latest.is_pause_over = False, False
        latest.top, latest.shift = None, 0
        latest.ledger, latest.filtered = Counter(), Counter()
        latest.skipped, latest.bodies = Counter(), Counter()
        latest.first_seeds, latest.latest_seeds, latest.expires_by = {}, {}, (0, 0, 0)
        latest.budgets, latest.budgets_by, latest.ended_by = Budgets(), (0, 0, 0), ""
        latest.used, latest.spent = {}, set()
        latest.idle_since = latest.occasion = None
        self.owed["crawl_started", crawl, latest.run] += 1
        return latest

    def admit_seed(self, item: Item, fingerprint: str, due: int | None) -> str | None:
        """Let a seed in; the reason if a cap refuses it."""
        generation = item.of
        room, reason = self._room(generation, item.domain)
        if room <= 0:
            generation.filtered[reason] += 1
            return reason
        generation.known.add((item.domain, fingerprint))
        generation.counted[item.domain] += 1
        self.enqueue(item, due)
        return None

    def _room(self, generation: Generation, domain: str) -> tuple[int, str]:
        domain_cap, crawl_cap = self.world.caps[generation.crawl]
        room, reason = self._queue_room(generation)
        if domain_cap is not None and domain_cap - generation.counted[domain] < room:
            room, reason = domain_cap - generation.counted[domain], "domain_max_pages"
        if crawl_cap is not None and crawl_cap - generation.counted.total() < room:
            room, reason = crawl_cap - generation.counted.total(), "max_pages"
        return max(room, 0), reason

    def _queue_room(self, generation: Generation) -> tuple[int, str]:
        room, reason = 10**9, ""
        if self.world.most_of_crawl:
            room, reason = self.world.most_of_crawl - generation.waiting, "crawl_full"
        left = self.world.most_of_all - sum(one.waiting for one in self.generations)
        if self.world.most_of_all and left < room:
            room, reason = left, "frontier_full"
        return room, reason

    def admit_links(self, group: list[tuple[str, Item]], found: Found) -> None:
        """Let links of one domain and priority in, as far as they are new and there is room."""
        if not group:
            return
        generation = group[0][1].of
        if generation.is_open:
            self._admit_open(group, found)
        else:
            generation.filtered["ended_run"] += len(group)

    def _admit_open(self, group: list[tuple[str, Item]], found: Found) -> None:
        generation, domain, counts = group[0][1].of, group[0][1].domain, found.counts
        hosting.note(self, generation, domain, found.standing)
        if found.linked and group[0][1].priority > promoting.HIGHEST_OF_LAST:
            promoting.see(self, group, found)
        room, reason = self._room(generation, domain) if counts else (10**9, "")
        if counts and domain in generation.spent:
            room, reason = 0, "domain_budget"
        met: set[str] = set()
        for fingerprint, item in group:
            if fingerprint in met or (domain, fingerprint) in generation.known:
                generation.filtered["duplicate"] += 1
            elif room <= 0:
                generation.filtered[reason] += 1
            else:
                room -= 1
                generation.known.add((domain, fingerprint))
                generation.counted[domain] += counts
                if hosting.enter(item, found.standing) and found.linked:
                    promoting.enter(item, fingerprint, found.weight)
                self.enqueue(item, None)
            met.add(fingerprint)

    def register(self, worker: str, token: str, spilled: Mapping[int, int], now: int) -> None:
        """End a page whose links were spilled: their number by chunk."""
        generation = self.leases[worker][token].item.of
        for chunk, links in spilled.items():
            name = f"{worker} {token} {chunk}"
            if name in self.recalled.get(worker, ()):
                self.recalled[worker].remove(name)
            elif generation.is_open:
                generation.spills[name] = links, now
                generation.ledger["admitted"] += links
                generation.ledger["spilled"] += links
            else:
                generation.filtered["ended_run"] += links

    def recall(self, record: Spilled) -> bool:
        """A record comes back; whether it says anything."""
        of, worker = record.of, record.worker
        if of.state != "running" or of.run != record.run:
            return False
        if record.name in of.spills:
            links, _ = of.spills.pop(record.name)
            of.ledger["admitted"] -= links
            of.ledger["spilled"] -= links
        elif record.token in self.leases.get(worker, {}):
            if record.name in self.recalled.setdefault(worker, set()):
                return False
            self.recalled[worker].add(record.name)
        else:
            return False
        for group, found in record.groups:
            self._admit_open(group, found)
        return True

    def lose_spills(self, passed: int) -> None:
        """Fail pages that were registered by then and have not come back."""
        for of in self.generations:
            lost = {name: links for name, (links, at) in of.spills.items() if at <= passed}
            for name, links in lost.items():
                del of.spills[name]
                of.ledger["spilled"] -= links
                of.ledger["failed"] += links
                self.owed["spill_lost", of.crawl, of.run] += 1

    def forget_worker(self, worker: str) -> None:
        """Remove a worker, and all that is stored for it."""
        self.deadlines.pop(worker, None)
        self.recalled.pop(worker, None)

    def enqueue(self, item: Item, due: int | None) -> None:
        """Admit an entry."""
        item.of.ledger["admitted"] += 1
        self.wait(item, due, in_front=False)

    def wait(self, item: Item, due: int | None, *, in_front: bool) -> None:
        """Into its band, or kept back until ``due``."""
        if due is not None:
            item.of.ledger["delayed"] += 1
            self._turn += 1
            self.delayed.append((due, self._turn, in_front, item))
            return
        item.of.ledger["queued"] += 1
        queue = self.band_of(item)
        queue.appendleft(item) if in_front else queue.append(item)
        if in_front:
            self.move_head(item, 1)

    def move_head(self, item: Item, by: int) -> None:
        """Note that the head of a band in parts has grown or shrunk."""
        queue = item.spider, item.domain, item.of, item.priority
        if queue in self.heads:
            self.heads[queue] += by

    def band_of(self, item: Item) -> deque[Item]:
        """The band of an item."""
        queues = self.queues.setdefault((item.spider, item.domain), {})
        return queues.setdefault((item.of, item.priority), deque())

    def stop(self, crawl: CrawlKey, place: Place, positions: Mapping[int, int]) -> int | None:
        """Stop a crawl: how many entries waited, None where there was nothing to stop."""
        latest, purged = self.latest.get(crawl), None
        if latest and self._is_meant(latest, place) and latest.takes_seeds:
            if latest.state == "running":
                self._keep_younger(latest, place, positions)
            purged = self.close(latest, "stopping")
        own = self.again.get(place.partition, ())
        self.again[place.partition] = [one for one in own if one.crawl != crawl]
        if crawl not in self.stops or place.at >= self.stops[crawl].at:
            self.stops[crawl] = place
        return purged

    @staticmethod
    def _is_meant(generation: Generation, place: Place) -> bool:
        seeds = generation.first_seeds
        earlier = (at <= place.at for at, _ in seeds.values())
        return not seeds or place.partition in seeds or any(earlier)

    def _keep_younger(
        self, generation: Generation, stop: Place, positions: Mapping[int, int]
    ) -> None:
        for partition, (_, first) in generation.first_seeds.items():
            if partition != stop.partition and generation.latest_seeds[partition] > stop.at:
                again = Again(generation.crawl, stop.at, first, positions[partition])
                self.again.setdefault(partition, []).append(again)

    def steer(self, command: Command, now: int) -> int | None:
        """Pause, resume or reprioritize the current run; return its number, or None."""
        assert command.crawl
        latest = self.latest.get(command.crawl)
        if latest is None or not latest.takes_seeds or not latest.is_open:
            return None
        if command.name == "resume":
            self._resume(latest, now)
        elif command.name == "pause":
            latest.is_paused, latest.is_pause_over = True, command.until == 1
        else:
            assert command.priority is not None
            assert latest.top is not None
            latest.shift = command.priority - latest.top
        return latest.run

    def _resume(self, generation: Generation, now: int) -> None:
        if generation.is_paused:
            generation.idle_since = None if generation.left else now
        generation.is_paused = generation.is_pause_over = False

    def end_pauses(self, now: int) -> None:
        """Resume the runs whose pauses have come to their end."""
        for generation in self.generations:
            if generation.is_pause_over:
                self._resume(generation, now)

    def close(self, generation: Generation, state: str) -> int:
        """End a run from outside: waiting pages are dropped, leased ones may still succeed."""
        generation.takes_seeds = False
        if generation.state != "running":
            return 0
        generation.state = state
        generation.is_paused = generation.is_pause_over = False
        gone = sum(generation.ledger.pop(name, 0) for name in ("queued", "delayed", "spilled"))
        generation.spills.clear()
        generation.ledger["stopped" if state == "stopping" else "expired"] += gone
        generation.listed.clear()
        for queues in self.queues.values():
            for key in [key for key in queues if key[0] is generation]:
                del queues[key]
        self.delayed = [one for one in self.delayed if one[3].of is not generation]
        return gone

    # Leases.

    def promote_delayed(self, spider: str, now: int) -> None:
        """Move pages that are due at ``now`` into their band."""
        due = sorted(
            (one for one in self.delayed if one[0] <= now and one[3].spider == spider),
            key=lambda one: one[:2],
        )
        self.delayed = [one for one in self.delayed if one not in due]
        for _, _, in_front, item in due:
            item.of.ledger["delayed"] -= 1
            self.wait(item, None, in_front=in_front)

    def open_bands(self, spider: str, domain: str) -> dict[tuple[Generation, int], deque[Item]]:
        """Bands of a domain that may be leased from."""
        queues = self.queues.get((spider, domain), {})
        return {
            key: queue
            for key, queue in queues.items()
            if key[0].may_lease
            and promoting.has_page(queue, self.heads.get((spider, domain, *key)))
        }

    def top_claim(self, spider: str, domain: str) -> int | None:
        """Return the claim of the best priority that waits in a domain, as it is now."""
        queues = self.open_bands(spider, domain)
        best = max(queues, key=lambda key: key[1] + key[0].shift, default=None)
        return best and promoting.claim_of(best[1]) + best[0].shift

    def top_priority(self, spider: str, domain: str) -> int | None:
        """Best priority that waits in a domain, as it stands now."""
        queues = self.open_bands(spider, domain)
        return max((priority + of.shift for of, priority in queues), default=None)

    def domain(self, name: str) -> Domain:
        """A domain's sends, and its rule."""
        return self.domains.setdefault(name, Domain(self.default))

    def allowance(self, name: str, now: int, *, is_sure: bool) -> int:
        """How many grants a domain and its gate allow at least, or at most."""
        names = filter(None, (name, self.gates.of(name)))
        return min(allowance(self, each, now, is_sure=is_sure) for each in names)

    def take(self, worker: str, spider: str, lease: Lease, now: int) -> None:
        """Check a grant and make it a lease."""
        name = lease.domain
        trusts = hosting.is_trusted_in(self.latest[lease.crawl], name)
        assert lease.is_trusted == trusts, lease
        is_allowed = lease.is_spare or self.allowance(name, now, is_sure=False) > 0
        assert is_allowed, lease
        assert lease.gate == ("" if lease.is_spare else self.gates.of(name)), lease
        bands, at = self.open_bands(spider, name), (lease.crawl, lease.priority)
        key = next((key for key in bands if (key[0].crawl, key[1]) == at), None)
        assert key, ("not in this band", lease)
        best = self.top_priority(spider, name)
        assert lease.priority + key[0].shift == best, ("not the best", lease, best)
        queue = self.queues[spider, name][key]
        promoting.end_copies(self, queue, next(n for n, one in enumerate(queue) if not one.is_over))
        item = queue.popleft()
        promoting.leave(item)
        assert (item.url, item.origin) == (url_of(lease), lease.entry.origin), lease
        assert (item.retries, item.of.run) == (lease.retries, lease.run), lease
        assert item.depth == lease.entry.depth, (lease, item)
        self.move_head(item, -1)
        item.of.ledger["queued"] -= 1
        item.of.ledger["held"] += 1
        held = Held(item, now, gate=lease.gate, is_spare=lease.is_spare)
        held.is_reported = held.is_received = lease.is_spare
        self.leases.setdefault(worker, {})[lease.token] = held

    # Ends of leases.

    def report(self, held: Held, now: int, after_ms: int | None) -> None:
        """A request left ``after_ms`` after its grant (None: unknown, it counts as now).

        UNSENT: it never will.
        """
        if not held.is_reported:
            held.is_reported = True
            if after_ms == UNSENT:
                return
            at = now if after_ms is None else min(now, held.since + after_ms)
            for name in filter(None, (held.item.domain, held.gate)):
                self.domain(name).sends.append(at)

    def end(self, worker: str, token: str, now: int, sent_ms: int | None) -> Item:
        """Take a lease from its worker."""
        held = self.leases[worker].pop(token)
        self.report(held, now, sent_ms)
        held.item.of.ledger["held"] -= 1
        return held.item

    def put_back(self, item: Item, now: int, delay_ms: int, *, in_front: bool) -> None:
        """Back into the frontier, or out of it with its run."""
        if item.of.state != "running":
            item.of.ledger["expired" if item.of.state == "expiring" else "stopped"] += 1
        else:
            self.wait(item, now + delay_ms if delay_ms else None, in_front=in_front)

    def reap(self, worker: str, now: int, blamed: str = "") -> int:
        """A worker is gone; answers how many leases it had."""
        tokens = sorted(self.leases.get(worker, {}), key=grant_order, reverse=True)
        for token in tokens:
            self._take_back(worker, token, now, death=token == blamed)
        self.forget_worker(worker)
        return len(tokens)

    def _take_back(self, worker: str, token: str, now: int, *, death: bool = False) -> None:
        """From a worker that has not brought it to its end, or for good; spare ones unmarked."""
        is_spare, item = self.leases[worker][token].is_spare, self.end(worker, token, now, None)
        item.reaps += not is_spare
        item.deaths += death and not is_spare
        if is_spare:
            self.put_back(item, now, 0, in_front=True)
        elif item.deaths >= MAX_DEATHS or item.reaps >= MAX_REAPS:
            item.of.ledger["failed"] += 1
            self.owed["page_failed", item.of.crawl, item.of.run] += 1
        else:
            pause = 1000 * 2 ** (item.reaps - 3) if item.reaps > 2 else 0
            self.put_back(item, now, min(pause, 60_000), in_front=True)

    def reconcile(self, worker: str, now: int, tokens: set[str]) -> None:
        """Leases that a worker does not know, or has had for too long, are taken back."""
        for token in sorted(tokens, key=grant_order, reverse=True):
            self._take_back(worker, token, now)

    def retire(self, worker: str, now: int, tokens: set[str]) -> None:
        """A worker releases leases, unmarked."""
        for token in sorted(tokens, key=grant_order, reverse=True):
            self.put_back(self.end(worker, token, now, None), now, 0, in_front=True)

    # Endings.

    def look_at_budgets(self) -> None:
        """Find the runs that have spent one."""
        for generation in self.generations:
            generation.look_at_budgets()

    def note_idle(self, now: int) -> None:
        """Runs that have just lost their last entry are idle from now on."""
        for generation in self.generations:
            if generation.state != "running" or generation.left:
                generation.idle_since = None
            elif generation.idle_since is None:
                generation.idle_since = now

    def expire_late(self) -> None:
        """Close the runs whose time is over."""
        for generation in self.generations:
            if generation.state == "running" and generation.over_time:
                self.close(generation, "expiring")

    def overdue(self, now: int) -> Iterator[Generation]:
        """Runs that must have ended by ``now``."""
        for generation in self.generations:
            idle = generation.idle_since
            if generation.state == "running":
                if idle is not None and idle + GRACE_MS <= now and not generation.is_paused:
                    yield generation
            elif generation.state in {"stopping", "expiring"} and not generation.left:
                yield generation

    def forget(self, crawl: CrawlKey) -> None:
        """Nothing is known of a crawl any more, but that its run numbers are used."""
        self.run_floor = max(self.run_floor, self.latest.pop(crawl).run)

    def finish(self, generation: Generation, now: int) -> None:
        """Its ending was published."""
        generation.ended_at = now
        endings = {"running": "finished", "stopping": "stopped", "expiring": "expired"}
        generation.state = endings[generation.state]
        self.owed[f"crawl_{generation.state}", generation.crawl, generation.run] += 1
