"""The page limit of a crawl in several partitions: exact, whatever is late or goes back in time.

A partition admits a link only with a credit of its own; other links wait. It asks the home with
all it knows of its account, and the home answers with the total that it may have drawn. Every
message may be late, come again, or get lost. What a partition does not need it gives back, and its
account gets the next number.

A partition that has gone back in time has lost its unspent credit, for it may have given it back. A
home that has gone back first counts the accounts of all partitions, which take no older answers
from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from support.partitions.system import Step

DRAW = 2
"""Credits that are asked for at once."""


class CreditBug(Enum):
    """What an implementation may forget."""

    CREDIT_SURVIVES = "a partition that has gone back in time keeps its unspent credit"
    NOT_COUNTED = "a home that has gone back in time grants by what it knew"
    OLD_ANSWERS = "a partition takes answers of a home that has gone back since"
    NO_NUMBER = "messages about an account before something was given back count"
    NO_LIFE = "a partition takes answers to its former life"
    OVER_TOO_SOON = "the limit is said to be reached while others have unspent credit"


class Account(NamedTuple):
    """What a partition has drawn, as it or the home knows it."""

    life: int
    """Of the partition."""
    number: int
    drawn: int
    """In total, less what was given back."""
    unspent: int


class Holder(NamedTuple):
    """A partition."""

    account: Account
    home_life: int
    """Answers of an older life of the home are refused."""
    admitted: int
    links: int
    """That wait for a credit."""
    is_refused: bool
    """Whether the home has said that there will be none."""

    def draw(self, amount: int, unspent: int) -> Holder:
        """With more credits, or fewer, than before."""
        account = self.account._replace(drawn=self.account.drawn + amount, unspent=unspent)
        return self._replace(account=account)


class Home(NamedTuple):
    """The home of the crawl."""

    life: int
    counted: frozenset[int]
    """Partitions whose accounts were counted in this life."""
    accounts: tuple[Account, ...]


class Draw(NamedTuple):
    """A partition asks for credits."""

    partition: int
    account: Account
    wanted: int


class Granted(NamedTuple):
    """The home answers."""

    partition: int
    home_life: int
    life: int
    number: int
    total: int
    is_over: bool


class CreditState(NamedTuple):
    """Everything. Messages stay: they may come late, and again."""

    holders: tuple[Holder, ...]
    home: Home
    lives: tuple[int, ...]
    """Of the partitions, then of the home."""
    draws: frozenset[Draw]
    grants: frozenset[Granted]
    crashes: int
    snapshots: tuple[Holder | Home | None, ...]

    def with_holder(self, place: int, holder: Holder) -> CreditState:
        """The same with another partition."""
        before, after = self.holders[:place], self.holders[place + 1 :]
        return self._replace(holders=(*before, holder, *after))

    def with_account(self, place: int, account: Account) -> CreditState:
        """The same with what the home knows of a partition."""
        accounts = self.home.accounts
        changed = (*accounts[:place], account, *accounts[place + 1 :])
        return self._replace(home=self.home._replace(accounts=changed))


class PageLimit:
    """Partitions with links to admit, and a limit; as it may be explored."""

    def __init__(
        self, links: tuple[int, ...], limit: int, *, crashes: int = 0, bug: CreditBug | None = None
    ) -> None:
        self._links = links
        self._limit = limit
        self._crashes = crashes
        self._bug = bug

    def begin(self) -> CreditState:
        """Nobody has drawn anything."""
        n, account = len(self._links), Account(1, 0, 0, 0)
        return CreditState(
            holders=tuple(
                Holder(account, 1, 0, amount, is_refused=False) for amount in self._links
            ),
            home=Home(1, frozenset(range(n)), (account,) * n),
            lives=(1,) * (n + 1),
            draws=frozenset(),
            grants=frozenset(),
            crashes=self._crashes,
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
        return (is_exact or is_short) and not any(holder.links for holder in state.holders)

    def steps(self, state: CreditState) -> Iterator[Step[CreditState]]:
        """What partitions, home and time may do."""
        for place in range(len(state.holders)):
            yield from self._of_holder(state, place)
        if len(state.home.counted) == len(state.holders):
            for draw in state.draws:
                yield from self._draw(state, draw)
        for granted in state.grants:
            yield Step("granted", self._granted(state, granted))
        for place in range(len(state.holders) + 1) if state.crashes else ():
            yield from self._crash(state, place)

    def _of_holder(self, state: CreditState, place: int) -> Iterator[Step[CreditState]]:
        holder = state.holders[place]
        account = holder.account
        if holder.links and holder.is_refused:
            yield Step("refuse", state.with_holder(place, holder._replace(links=holder.links - 1)))
        elif holder.links and account.unspent:
            admitted = holder.draw(0, account.unspent - 1)._replace(
                links=holder.links - 1, admitted=holder.admitted + 1
            )
            yield Step("admit", state.with_holder(place, admitted))
        elif account.unspent:
            less = holder.draw(-account.unspent, 0)
            less = less._replace(account=less.account._replace(number=account.number + 1))
            yield Step("give_back", state.with_holder(place, less))
        is_short = holder.links > account.unspent and not holder.is_refused
        draw = Draw(place, account, DRAW if is_short else 0)
        if draw not in state.draws:
            yield Step("ask", state._replace(draws=state.draws | {draw}))
        if place not in state.home.counted:
            yield Step("count", self._counted(state, place))

    def _counted(self, state: CreditState, place: int) -> CreditState:
        """A home in a new life asks a partition what it has."""
        home, holder = state.home, state.holders[place]
        state = state._replace(home=home._replace(counted=home.counted | {place}))
        state = state.with_account(place, holder.account)
        if self._bug is CreditBug.OLD_ANSWERS:
            return state
        fenced = holder._replace(home_life=max(holder.home_life, home.life))
        return state.with_holder(place, fenced)

    def _draw(self, state: CreditState, draw: Draw) -> Iterator[Step[CreditState]]:
        place, asked, wanted = draw
        known = state.home.accounts[place]
        is_numbered = self._bug is not CreditBug.NO_NUMBER
        if is_numbered and asked[:2] < known[:2]:
            return
        if asked[:2] > known[:2] or not is_numbered:
            known = asked
        elif asked.drawn == known.drawn:
            known = known._replace(unspent=min(known.unspent, asked.unspent))
        state = state.with_account(place, known)
        left = self._limit - sum(account.drawn for account in state.home.accounts)
        more = min(wanted, left) if asked.drawn == known.drawn else 0
        known = known._replace(drawn=known.drawn + more, unspent=known.unspent + more)
        state = state.with_account(place, known)
        is_spent = not any(account.unspent for account in state.home.accounts)
        is_over = left == 0 and (is_spent or self._bug is CreditBug.OVER_TOO_SOON) and wanted > 0
        granted = Granted(place, state.home.life, *known[:3], is_over)
        yield Step("draw", state._replace(grants=state.grants | {granted}))

    def _granted(self, state: CreditState, granted: Granted) -> CreditState:
        holder = state.holders[granted.partition]
        account = holder.account
        is_of_life = granted.life == account.life or self._bug is CreditBug.NO_LIFE
        is_current = granted.number == account.number or self._bug is CreditBug.NO_NUMBER
        if granted.home_life < holder.home_life or not is_of_life or not is_current:
            return state
        more = max(granted.total - account.drawn, 0)
        is_refused = granted.is_over and not more and not account.unspent
        holder = holder.draw(more, account.unspent + more)._replace(
            home_life=max(granted.home_life, holder.home_life),
            is_refused=holder.is_refused or is_refused,
        )
        return state.with_holder(granted.partition, holder)

    def _crash(self, state: CreditState, place: int) -> Iterator[Step[CreditState]]:
        """As in `faults.py`; behind the partitions comes the home."""
        is_home = place == len(state.holders)
        now = state.home if is_home else state.holders[place]
        kept = state.snapshots[place]
        if kept is None and sum(s is not None for s in state.snapshots) < state.crashes:
            yield Step("freeze", _with_snapshot(state, place, now), is_fault=True)
        life = state.lives[place] + 1
        after = _with_snapshot(state, place, None)._replace(
            crashes=state.crashes - 1,
            lives=(*state.lives[:place], life, *state.lives[place + 1 :]),
        )
        yield Step("crash", self._gone_back(after, place, kept or now), is_fault=True)

    def _gone_back(self, state: CreditState, place: int, kept: Holder | Home) -> CreditState:
        life = state.lives[place]
        if isinstance(kept, Home):
            is_counted = self._bug is CreditBug.NOT_COUNTED
            counted = frozenset(range(len(state.holders))) if is_counted else frozenset[int]()
            return state._replace(home=kept._replace(life=life, counted=counted))
        account = kept.account
        if self._bug is not CreditBug.CREDIT_SURVIVES:
            account = account._replace(drawn=account.drawn - account.unspent, unspent=0)
        return state.with_holder(place, kept._replace(account=account._replace(life=life)))


def _with_snapshot(state: CreditState, place: int, kept: Holder | Home | None) -> CreditState:
    snapshots = state.snapshots
    return state._replace(snapshots=(*snapshots[:place], kept, *snapshots[place + 1 :]))
