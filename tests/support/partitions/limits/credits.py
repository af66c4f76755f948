"""The page limit of a crawl in several partitions: exact, whatever is late or goes back in time.

A partition admits a link only with a credit of its own; other links wait in its limbo, as many as
credits may still come. It asks the coordinator with all it knows of its account, and the
coordinator answers with the total that it may have drawn: what is waited for, and some ahead. Every
message may be late, come again, or get lost. What a partition does not need it gives back when
others do, and its account gets the next number.

A partition that has gone back in time has lost its unspent credit, for it may have given it back. A
coordinator that has gone back first counts the accounts of all partitions, which take no older
answers from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from support.partitions.system import Step


class CreditBug(Enum):
    """Rules that an implementation may break."""

    CREDIT_SURVIVES = "a partition that has gone back in time keeps its unspent credit"
    NOT_COUNTED = "a home that has gone back in time grants by what it knew"
    OLD_ANSWERS = "a partition takes answers of a home that has gone back since"
    NO_NUMBER = "messages about an account before something was given back count"
    NO_LIFE = "a partition takes answers to its former life"
    OVER_TOO_SOON = "the limit is said to be reached while others have unspent credit"
    TIGHT_LIMBO = "what others have drawn, but not spent, is taken for lost to those that wait"
    KEPT_AHEAD = "nobody gives back what was granted ahead"


class Account(NamedTuple):
    """Credits that a partition has drawn, as it or the coordinator knows them."""

    life: int
    """Life of the partition."""
    number: int
    drawn: int
    """In total, less what was given back."""
    unspent: int


class Holder(NamedTuple):
    """A partition."""

    account: Account
    coordinator_life: int
    """Answers of an older life of the coordinator are refused."""
    admitted: int
    links: int
    """That will be found."""
    limbo: int
    """Links that wait for a credit."""
    elsewhere: int
    """Credits that others have spent, as the coordinator has last said."""
    is_refused: bool
    """True: the coordinator has answered that there will be none."""

    def draw(self, amount: int, unspent: int) -> Holder:
        """With more credits, or fewer, than before."""
        account = self.account._replace(drawn=self.account.drawn + amount, unspent=unspent)
        return self._replace(account=account)

    def spend(self, amount: int) -> Holder:
        """Links enter."""
        return self.draw(0, self.account.unspent - amount)._replace(admitted=self.admitted + amount)


class Coordinator(NamedTuple):
    """The coordinator of the crawl."""

    life: int
    counted: frozenset[int]
    """Partitions whose accounts were counted in this life."""
    accounts: tuple[Account, ...]


class Draw(NamedTuple):
    """A partition requests credits, or reports those that it has spent."""

    partition: int
    account: Account
    wanted: int


class Granted(NamedTuple):
    """The coordinator answers."""

    partition: int
    coordinator_life: int
    life: int
    number: int
    total: int
    elsewhere: int
    """Credits that others have spent."""
    is_over: bool


class CreditState(NamedTuple):
    """Everything. Answers stay: they may come late, and again."""

    holders: tuple[Holder, ...]
    coordinator: Coordinator
    lives: tuple[int, ...]
    """Lives of the partitions, then of the coordinator."""
    draws: frozenset[Draw]
    """Draws that come late, and again; others arrive at once."""
    grants: frozenset[Granted]
    crashes: int
    late: int
    """Number of further draws that may come late."""
    snapshots: tuple[Holder | Coordinator | None, ...]

    def with_holder(self, place: int, holder: Holder) -> CreditState:
        """Return a copy with another partition."""
        before, after = self.holders[:place], self.holders[place + 1 :]
        return self._replace(holders=(*before, holder, *after))

    def with_account(self, place: int, account: Account) -> CreditState:
        """Return a copy with other credits of a partition at the coordinator."""
        accounts = self.coordinator.accounts
        changed = (*accounts[:place], account, *accounts[place + 1 :])
        return self._replace(coordinator=self.coordinator._replace(accounts=changed))


class PageLimit:
    """Partitions with links to admit, and a limit; as it may be explored."""

    def __init__(
        self,
        links: tuple[int, ...],
        limit: int,
        *,
        crashes: int = 0,
        late: int = 1,
        ahead: int = 1,
        tells: bool = False,
        bug: CreditBug | None = None,
    ) -> None:
        self._links = links
        self._limit = limit
        self._crashes = crashes
        self._late = late
        self._ahead = ahead
        self._tells = tells
        self._bug = bug

    def begin(self) -> CreditState:
        """State in which no partition has drawn anything."""
        n, account = len(self._links), Account(1, 0, 0, 0)
        return CreditState(
            holders=tuple(
                Holder(account, 1, 0, amount, 0, 0, is_refused=False) for amount in self._links
            ),
            coordinator=Coordinator(1, frozenset(range(n)), (account,) * n),
            lives=(1,) * (n + 1),
            draws=frozenset(),
            grants=frozenset(),
            crashes=self._crashes,
            late=self._late,
            snapshots=(None,) * (n + 1),
        )

    def broken(self, before: CreditState, step: Step[CreditState]) -> str | None:
        """More credits must never be out than there are, nor more links admitted."""
        out = sum(holder.account.drawn for holder in step.after.holders)
        return f"{out} credits of {self._limit} are out" if out > self._limit else None

    def is_done(self, state: CreditState) -> bool:
        """No link waits, and the limit is reached; after a crash a partition may have lost some."""
        admitted = sum(holder.admitted for holder in state.holders)
        is_exact = admitted == min(self._limit, sum(self._links))
        is_short = state.crashes < self._crashes
        is_waiting = any(holder.links or holder.limbo for holder in state.holders)
        return (is_exact or is_short) and not is_waiting

    def steps(self, state: CreditState) -> Iterator[Step[CreditState]]:
        """Steps of partitions, coordinator and time."""
        for place in range(len(state.holders)):
            yield from self._of_holder(state, place)
        for draw in state.draws:
            yield from self._draw(state, draw)
        for granted in state.grants:
            yield Step("granted", self._granted(state, granted), about=granted)
        for place in range(len(state.holders) + 1) if state.crashes else ():
            yield from self._crash(state, place)

    def _of_holder(self, state: CreditState, place: int) -> Iterator[Step[CreditState]]:
        holder = state.holders[place]
        account = holder.account
        if holder.links:
            yield Step("find", state.with_holder(place, self._found(holder)), about=place)
        name = "ask"
        if account.unspent and self._bug is not CreditBug.KEPT_AHEAD:
            name, holder = "give_back", holder.draw(-account.unspent, 0)
            account = holder.account._replace(number=account.number + 1)
            holder = holder._replace(account=account)
        after, draw = state.with_holder(place, holder), Draw(place, account, holder.limbo)
        yield from self._draw(after, draw, name)
        if state.late:
            late = after._replace(draws=state.draws | {draw}, late=state.late - 1)
            yield Step(name + "_late", late, about=draw)
        if place not in state.coordinator.counted:
            yield Step("count", self._counted(state, place), about=place)

    def _found(self, holder: Holder) -> Holder:
        """Add a link that was found: it enters, waits, or is refused."""
        account = holder.account
        found = holder._replace(links=holder.links - 1)
        spent = account.drawn - account.unspent
        if account.unspent:
            return found.spend(1)
        if holder.is_refused or holder.limbo >= self._limit - spent - holder.elsewhere:
            return found
        return found._replace(limbo=holder.limbo + 1)

    def _counted(self, state: CreditState, place: int) -> CreditState:
        """A coordinator in a new life asks a partition what it has."""
        coordinator, holder = state.coordinator, state.holders[place]
        state = state._replace(
            coordinator=coordinator._replace(counted=coordinator.counted | {place})
        )
        state = state.with_account(place, holder.account)
        if self._bug is CreditBug.OLD_ANSWERS:
            return state
        fenced = holder._replace(coordinator_life=max(holder.coordinator_life, coordinator.life))
        return state.with_holder(place, fenced)

    def _draw(
        self, state: CreditState, draw: Draw, name: str = "draw"
    ) -> Iterator[Step[CreditState]]:
        if len(state.coordinator.counted) < len(state.holders):
            return
        place, asked, wanted = draw
        known = state.coordinator.accounts[place]
        is_numbered = self._bug is not CreditBug.NO_NUMBER
        if is_numbered and asked[:2] < known[:2]:
            return
        if asked[:2] > known[:2] or not is_numbered:
            known = asked
        elif asked.drawn == known.drawn:
            known = known._replace(unspent=min(known.unspent, asked.unspent))
        state = state.with_account(place, known)
        left = self._limit - sum(account.drawn for account in state.coordinator.accounts)
        more = 0
        if wanted and asked.drawn == known.drawn:
            more = min(wanted, left)
            more += (left - more) // self._ahead
        known = known._replace(drawn=known.drawn + more, unspent=known.unspent + more)
        state = state.with_account(place, known)
        is_spent = not any(account.unspent for account in state.coordinator.accounts)
        is_over = left == 0 and (is_spent or self._bug is CreditBug.OVER_TOO_SOON) and wanted > 0
        others = [each for p, each in enumerate(state.coordinator.accounts) if p != place]
        is_tight = self._bug is CreditBug.TIGHT_LIMBO
        elsewhere = sum(each.drawn - (0 if is_tight else each.unspent) for each in others)
        elsewhere = elsewhere if self._tells else 0
        granted = Granted(place, state.coordinator.life, *known[:3], elsewhere, is_over)
        grants = {g for g in state.grants if self._may_count(state, g)} | {granted}
        after = state._replace(grants=frozenset(grants))
        yield Step(name, after, about=(draw, granted))

    def _may_count(self, state: CreditState, granted: Granted) -> bool:
        """Accounts have larger and larger lives and numbers: an earlier one does not come back."""
        account = state.holders[granted.partition].account
        is_late = (granted.life, granted.number) < account[:2]
        return not is_late or self._bug in {CreditBug.NO_LIFE, CreditBug.NO_NUMBER}

    def _granted(self, state: CreditState, granted: Granted) -> CreditState:
        holder = state.holders[granted.partition]
        account = holder.account
        is_of_life = granted.life == account.life or self._bug is CreditBug.NO_LIFE
        is_current = granted.number == account.number or self._bug is CreditBug.NO_NUMBER
        if granted.coordinator_life < holder.coordinator_life or not is_of_life or not is_current:
            return state
        more = max(granted.total - account.drawn, 0)
        is_refused = granted.is_over and not more and not account.unspent
        is_latest = granted.total >= account.drawn
        holder = holder.draw(more, account.unspent + more)._replace(
            coordinator_life=max(granted.coordinator_life, holder.coordinator_life),
            elsewhere=granted.elsewhere if is_latest else holder.elsewhere,
            is_refused=holder.is_refused or is_refused,
        )
        ready = min(holder.limbo, holder.account.unspent)
        left = 0 if holder.is_refused else holder.limbo - ready
        return state.with_holder(granted.partition, holder.spend(ready)._replace(limbo=left))

    def _crash(self, state: CreditState, place: int) -> Iterator[Step[CreditState]]:
        """As in `faults.py`; behind the partitions comes the coordinator."""
        is_coordinator = place == len(state.holders)
        now = state.coordinator if is_coordinator else state.holders[place]
        kept = state.snapshots[place]
        if kept is None and sum(s is not None for s in state.snapshots) < state.crashes:
            frozen = _with_snapshot(state, place, now)
            yield Step("freeze", frozen, is_fault=True, about=place)
        life = state.lives[place] + 1
        after = _with_snapshot(state, place, None)._replace(
            crashes=state.crashes - 1,
            lives=(*state.lives[:place], life, *state.lives[place + 1 :]),
        )
        gone_back = self._gone_back(after, place, kept or now)
        yield Step("crash", gone_back, is_fault=True, about=place)

    def _gone_back(self, state: CreditState, place: int, kept: Holder | Coordinator) -> CreditState:
        life = state.lives[place]
        if isinstance(kept, Coordinator):
            is_counted = self._bug is CreditBug.NOT_COUNTED
            counted = frozenset(range(len(state.holders))) if is_counted else frozenset[int]()
            return state._replace(coordinator=kept._replace(life=life, counted=counted))
        account = kept.account
        if self._bug is not CreditBug.CREDIT_SURVIVES:
            account = account._replace(drawn=account.drawn - account.unspent, unspent=0)
        return state.with_holder(place, kept._replace(account=account._replace(life=life)))


def _with_snapshot(
    state: CreditState, place: int, kept: Holder | Coordinator | None
) -> CreditState:
    snapshots = state.snapshots
    return state._replace(snapshots=(*snapshots[:place], kept, *snapshots[place + 1 :]))
