"""A site that wants money: each page has a price, and a log of what was charged for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawlstream.model.words.price import Price, price_in
from crawlstream_chaos.laws.signatures import Refused, Verifier
from crawlstream_chaos.scripted_site import HTML, Answer, SeenRequest


@dataclass
class ChargingSite:
    """Prices of paths; a request is charged if it offers exactly the price, and has signed that."""

    prices: dict[str, Price]
    verifier: Verifier
    charged: list[tuple[str, int]] = field(default_factory=list)
    """Path and millionths of each charge."""
    receipts: dict[str, str] = field(default_factory=dict)
    """Other receipts than the price, by path; "" for none."""
    lost: set[str] = field(default_factory=set)
    """Paths whose next charge is not answered."""

    def __call__(self, visit: SeenRequest) -> Answer:
        """Answer one visitor."""
        price = self.prices[visit.path]
        wanted = {**HTML, "crawler-price": str(price)}
        offer = visit.headers.get("crawler-exact-price")
        if offer is None:
            return Answer(b"pay", status=402, headers=wanted)
        try:
            self.verifier.verify(
                visit.headers, authority=visit.headers["host"], path=visit.path, now=visit.at
            )
        except Refused:
            return Answer(status=400, headers={"crawler-error": "InvalidSignature"})
        if price_in(offer) != price:
            error = {"crawler-error": "InvalidCrawlerExactPrice"}
            return Answer(b"pay", status=402, headers={**wanted, **error})
        receipt = self.receipts.get(visit.path, str(price))
        self.charged.append((visit.path, (price_in(receipt) or price).millionths))
        if visit.path in self.lost:
            self.lost.remove(visit.path)
            return Answer(is_reset=True)
        more = {"crawler-charged": receipt} if receipt else {}
        return Answer(b"paid", headers={**HTML, **more})

    @property
    def total(self) -> int:
        """Millionths that were charged."""
        return sum(millionths for _, millionths in self.charged)
