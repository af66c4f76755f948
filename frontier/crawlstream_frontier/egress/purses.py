"""Purses in Redis: one operation reserves, settles and keeps all of them, in the root partition.

Limits and sums are in one place, and lost together: without them nothing is paid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from crawlstream.model.words.price import Price
from crawlstream_frontier.codec.values import none_as, pairs, unpack
from crawlstream_frontier.codec.values import pack as packed
from crawlstream_frontier.egress.purse import (
    OTHER_ORIGINS,
    OpenPayment,
    Purse,
    PurseDetails,
    PurseState,
)
from crawlstream_frontier.scripts import Scripts

OK = "ok"
_UNKNOWN = -1
_MOST_ORIGINS = 1000


class Buyer(NamedTuple):
    """Page with a price, its crawl and the limit of that."""

    purse: str
    origin: str
    domain: str
    app: str
    limit: Price | None
    """Highest price by its crawl."""

    def fields(self) -> Sequence[object]:
        """Return the arguments behind the purse."""
        currency, most = self.limit or ("", _UNKNOWN)
        return self.origin, self.domain, self.app, currency, most


class Purses:
    """All purses; all methods: RedisUnavailable. Calls may have taken effect, and count once."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def quote(self, buyer: Buyer, price: Price) -> str:
        """Note the price of an origin; return whether it can be paid (``OK``), or why not."""
        answer = await self._call("quote", buyer.purse, *buyer.fields(), *price)
        return str(answer[0].decode())

    async def reserve(self, buyer: Buyer, sending: str) -> tuple[str, Price | None]:
        """Reserve the known price of an origin for one sending of a request; or return why not."""
        answer = await self._call("reserve", buyer.purse, *buyer.fields(), sending)
        why = answer[0].decode()
        return why, Price(answer[1].decode(), answer[2]) if why == OK else None

    async def settle(
        self, purse: str, origin: str, sending: str, *, price: Price, charged: int | None
    ) -> None:
        """End a reservation: ``charged`` is spent and the rest is free; None: all is spent."""
        amounts = price.millionths, none_as(charged)
        await self._call("settle", purse, origin, sending, *amounts)

    async def put(self, purse: Purse) -> str:
        """Create or change a purse; return ``OK``, or why not."""
        definition = [
            purse.currency,
            purse.day,
            none_as(purse.total),
            none_as(purse.max_price),
            "\n".join(purse.apps),
            "\n".join(purse.domains),
        ]
        return str((await self._call("set", purse.name, packed(definition)))[0].decode())

    async def adopt(self, purse: str) -> bool:
        """Open a purse, and trust all origins again; return whether it exists."""
        return await self._is_ok("adopt", purse)

    async def remove(self, purse: str) -> bool:
        """Delete a purse and its sums; return whether it existed."""
        return await self._is_ok("remove", purse)

    async def state(self, name: str) -> PurseState | None:
        """Return a purse and its sums; None if there is none."""
        why, *found = await self._call("show", name)
        return _state_of(name, found) if why.decode() == OK else None

    async def details(self, name: str, dates: Iterable[int] = ()) -> PurseDetails:
        """Return the open payments of a purse, and its origins: those that charged, or too much.

        ``dates`` are those of the charges, counted in days from 1970.
        """
        why, *found = await self._call("details", name)
        if why.decode() != OK:
            return PurseDetails((), (), {})
        under_way, distrusted = found
        charges = Counter[str]()
        for date in dates:
            charges.update(await self._charges(name, date))
        return PurseDetails(
            [_reservation(*pair) for pair in pairs(under_way).items()],
            sorted(origin.decode() for origin in distrusted),
            _largest(charges),
        )

    async def _charges(self, name: str, date: int) -> Mapping[str, int]:
        why, *found = await self._call("origins", name, date)
        return (
            {}
            if why.decode() != OK
            else {origin: int(sum_) for origin, sum_ in pairs(found[0]).items()}
        )

    async def forgive(self, purse: str, origin: str) -> str:
        """Trust an origin again; return ``OK``, or why not: no such purse, or it is trusted."""
        return str((await self._call("forgive", purse, origin))[0].decode())

    async def all(self) -> Sequence[PurseState]:
        """Return all purses, sorted by their names."""
        _, names = await self._call("names", "")
        states = [await self.state(name.decode()) for name in sorted(names)]
        return [state for state in states if state is not None]

    async def _is_ok(self, verb: str, purse: str) -> bool:
        return bool((await self._call(verb, purse))[0].decode() == OK)

    async def _call(self, verb: str, purse: str, *args: object) -> list[Any]:
        answer: list[Any] = unpack(await self._scripts.run("purse", packed([verb, purse, args])))
        return answer


def _largest(charges: Counter[str]) -> Mapping[str, int]:
    """Return the largest sums, and at the end that of all other origins, if there are any."""
    others = charges.pop(OTHER_ORIGINS, 0)
    largest = dict(charges.most_common(_MOST_ORIGINS))
    others += charges.total() - sum(largest.values())
    return largest | ({OTHER_ORIGINS: others} if others else {})


def _reservation(member: str, since_ms: str) -> OpenPayment:
    price, page, *_ = member.split(" ")
    return OpenPayment(page, int(price), int(since_ms) / 1000)


def _state_of(name: str, found: Sequence[Any]) -> PurseState:
    definition, flat, is_closed, reservations, distrusted = found
    currency, day, total, max_price, apps, domains = unpack(definition)
    sums = pairs(flat)
    return PurseState(
        purse=Purse(
            name=name,
            currency=currency.decode(),
            day=day,
            total=None if total < 0 else total,
            max_price=None if max_price < 0 else max_price,
            apps=apps.decode().split("\n") if apps else (),
            domains=domains.decode().split("\n") if domains else (),
        ),
        total=int(sums.get("total", 0)),
        charged=int(sums.get("charged", 0)),
        unsettled=int(sums.get("unsettled", 0)),
        overcharged=int(sums.get("overcharged", 0)),
        pages=int(sums.get("pages", 0)),
        open=reservations,
        distrusted=distrusted,
        is_closed=bool(is_closed),
        days={int(name[1:]): int(sum_) for name, sum_ in sums.items() if name[1:].isdecimal()},
    )
