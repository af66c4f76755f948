"""Bodies of ``/v2``: each field has the type that the OpenAPI description gives it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from rest_service.v2.cluster import Rule
from rest_service.v2.crawls import Target
from rest_service.v2.proxies import Ban
from rest_service.v2.purses import PurseLimits
from rest_service.v2.records import Place
from rest_service.v2.scrapes.scrape_order import ScrapeOrder

URL = "http://www.example.com/"
CRAWL = {"appid": "app", "crawlid": "one"}


@pytest.mark.parametrize(
    ("body", "right", "wrong"),
    [
        (Rule, {"gentle": 0.5}, {"gentle": False}),
        (Rule, {"hits": 2, "window": 1}, {"hits": "2", "window": 1}),
        (Rule, {"moderated": True}, {"moderated": 1}),
        (Target, {**CRAWL, "priority": 1}, {**CRAWL, "priority": True}),
        (Ban, {"id": "p-1", "for_s": 60}, {"id": "p-1", "for_s": "60"}),
        (PurseLimits, {"currency": "USD", "day": "5"}, {"currency": "USD", "day": 5}),
        (Place, {"partition": 0, "offset": 1}, {"partition": "0", "offset": 1}),
        (ScrapeOrder, {"url": URL, "wait": 1}, {"url": URL, "wait": "1"}),
        (ScrapeOrder, {"url": URL, "main": False}, {"url": URL, "main": "no"}),
    ],
)
def test_a_field_takes_its_described_type_only(
    body: type[BaseModel], right: dict[str, Any], wrong: dict[str, Any]
) -> None:
    """Refuse a boolean or a text for a number, and a number or a text for a boolean."""
    body.model_validate(right)
    with pytest.raises(ValidationError):
        body.model_validate(wrong)
