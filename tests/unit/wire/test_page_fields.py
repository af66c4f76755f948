"""A field is listed once: whatever carries pages, or settings of requests, follows the list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import pytest

from crawlstream.model.crawl import Inherited
from crawlstream.model.delivered import PAGE_FIELDS
from crawlstream.model.request import CrawlRequest, profile_of
from crawlstream.model.result import OCCASIONAL
from crawlstream.model.web.priorities import PriorityRule
from crawlstream.model.web.url_parameters import Parameters
from crawlstream.wire.delivered import decode
from crawlstream.wire.requests import SCRAPER
from crawlstream.wire.stored import decode_profile, encode_profile
from pipeline_service.formats.columns import COLUMNS
from support.pipelines.results import record

_VALUES: dict[Any, Any] = {str: "POST", bool: True, int: 7, Sequence[str]: ["a", "b"]}
_VALUES[Mapping[str, object]] = {"a": "b"}


@pytest.mark.parametrize("name", OCCASIONAL)
def test_a_field_of_a_result_is_encoded_decoded_and_a_column(name: str) -> None:
    """A record lacks the field while it has its default."""
    value = _VALUES[PAGE_FIELDS[name].type]
    page, other = decode(record(1, **{name: value})), decode(record(1))
    assert (getattr(page, name), getattr(other, name)) == (value, OCCASIONAL[name])
    assert name.encode() not in record(1)
    assert not page.extra
    (column,) = (each for each in COLUMNS if each.name == name)
    assert column.take(page) == ('{"a":"b"}' if isinstance(value, dict) else value)


def test_a_setting_that_pages_inherit_is_stored_with_the_profile() -> None:
    """Each one is taken from the request, and a field of its schema."""
    values: dict[str, Any] = {field.name: f"<{field.name}>" for field in fields(Inherited)}
    values["priorities"] = (PriorityRule(match="/a", add=10),)
    values["parameters"] = Parameters(keep=("a",), drop=("b*",))
    request = CrawlRequest(appid="app", crawlid="job", url="http://a.example/", **values)
    profile = decode_profile(encode_profile(profile_of(request)))
    assert {name: getattr(profile, name) for name in values} == values
    assert values.keys() <= SCRAPER.schema.properties.keys()
