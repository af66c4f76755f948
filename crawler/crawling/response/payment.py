"""Read a response about money: the price of its page, the charge, the reason of a refusal.

A page that costs something is a result like any other, unless its crawl pays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from scrapy.http import Response

from crawling.egress.payments import CHARGED
from crawling.page.page import Offer
from crawlstream.model.words.price import price_in

PAYMENT_REQUIRED = 402

_PRICE, _ERROR = b"Crawler-Price", b"Crawler-Error"
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def payment_of(response: Response, offer: Offer | None = None) -> Mapping[str, str | None] | None:
    """Return the field ``payment`` of a result; None if the response does not speak of money."""
    names = dict.keys(response.headers)
    purse = offer.purse if offer and offer.price else None
    is_about_money = CHARGED in names or _PRICE in names or _ERROR in names
    if not is_about_money and response.status != PAYMENT_REQUIRED and purse is None:
        return None
    error = _text(response, _ERROR)
    return {
        "price": _price(response, _PRICE),
        "charged": _price(response, CHARGED),
        "error": error if _CODE.fullmatch(error) else None,
        "purse": purse,
    }


def _price(response: Response, name: bytes) -> str | None:
    price = price_in(_text(response, name))
    return None if price is None else str(price)


def _text(response: Response, name: bytes) -> str:
    return (response.headers.get(name) or b"").decode("latin-1").strip()
