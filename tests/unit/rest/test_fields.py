"""Fields of a form, as the body of a request."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream.model.request import CrawlRequest
from rest_service.dashboard.fields import (
    MORE,
    ChosenFile,
    Typed,
    body_of,
    place_of,
    records_of,
    seeds_of,
)
from rest_service.http.envelope import RequestRefused


def _body(**texts: str) -> Any:
    return orjson.loads(body_of(Typed({name: [text] for name, text in texts.items()})).content)


def _seeds(**texts: str) -> Any:
    return orjson.loads(seeds_of(Typed({name: [text] for name, text in texts.items()})).content)


def test_a_field_is_what_the_api_takes() -> None:
    """Numbers, lists, pairs, truths, data and times; what is empty is absent."""
    assert _body(priority="7", window="0.5", hits="3.0", scale="") == {
        "priority": 7,
        "window": 0.5,
        "hits": 3,
    }
    assert _body(deny_regex=" a \n\n b", headers="A: b:c\n\nD") == {
        "deny_regex": ["a", "b"],
        "headers": {"A": "b:c", "D": ""},
    }
    assert _body(obey_robots="false", moderated="true") == {"obey_robots": False, "moderated": True}
    assert _body(attrs='{"a": [1]}', crawlid="12") == {"attrs": {"a": [1]}, "crawlid": "12"}
    assert _body(not_before="1970-01-01T00:01", expires="1970-01-01T02:00:00+02:00") == {
        "not_before": 60,
        "expires": 0,
    }


def test_what_is_not_of_its_type_is_passed_on() -> None:
    """The API, which knows best, says what is wrong with it."""
    wrong = {
        "maxdepth": "deep",
        "priority": "nan",
        "hits": "1e999",
        "attrs": "{",
        "expires": "tomorrow",
        "obey_robots": "perhaps",
    }
    assert _body(**wrong) == wrong
    assert _body(maxdepth="9" * 40)["maxdepth"] == pytest.approx(1e40)


def test_a_pause_is_as_long_as_was_chosen() -> None:
    """It ends after that number of seconds; 0 ends it."""
    typed = Typed({"until": ["900"], "paused_until": ["0"]}, at=1000.5)
    assert typed.fields() == {"until": 1900, "paused_until": 0}


def test_a_crawl_stays_where_its_urls_are() -> None:
    """Follows links on hosts, domains or folders of the URLs, unless other filters are given."""
    urls = "http://a.example.com/x/y\nb.test"
    assert [one["url"] for one in _seeds(urls=urls)] == urls.split("\n")
    hosts = {"allowed_domains": ["a.example.com", "b.test"]}
    assert _seeds(urls=urls, scope="host")[0] == {"url": "http://a.example.com/x/y", **hosts}
    assert _seeds(urls=urls, scope="domain")[1]["allowed_domains"] == ["example.com", "b.test"]
    assert _seeds(urls=urls, scope="prefix")[0]["allow_regex"][0].endswith("/x/")
    assert "allowed_domains" not in _seeds(urls=urls, scope="any")[0]
    own = _seeds(urls=urls, scope="host", allowed_domains="c.test")
    assert own[0]["allowed_domains"] == ["c.test"]
    assert _seeds(appid="only") == [{"appid": "only"}]
    with pytest.raises(RequestRefused, match="host, domain, prefix, any"):
        _seeds(urls=urls, scope="galaxy")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", "text/csv"),
        ("A.JSON", "application/json"),
        ("a.jsonl", "application/x-ndjson"),
        ("a", "application/x-ndjson"),
    ],
)
def test_a_file_is_what_its_name_says(name: str, kind: str) -> None:
    """Tables, lists, or lines."""
    typed = Typed({}, ChosenFile(name, b"x"), has_file=True)
    assert seeds_of(typed) == (b"x", kind)


def test_records_are_named_by_their_places() -> None:
    """A text that names none is refused, however long it is."""
    body = records_of(Typed({"record": ["0:7", "1:0"]}))
    assert orjson.loads(body.content)["records"][0] == {"partition": 0, "offset": 7}
    for text in ("", "1", "a:b", "1:-1", "1:2:3", "9" * 5000 + ":1"):
        with pytest.raises(RequestRefused):
            place_of(text)


_NAMES = [*(one.name for one in MORE), "hits", "until", "maxdepth"]


@given(st.dictionaries(st.sampled_from(_NAMES), st.text()))
def test_no_text_breaks_a_form(texts: dict[str, str]) -> None:
    """Makes JSON of any typed text."""
    typed = Typed({name: [text] for name, text in texts.items()}, at=0)
    assert isinstance(orjson.loads(body_of(typed).content), dict)


def test_every_field_of_the_form_is_one_of_a_request() -> None:
    """No input of the form is ignored."""
    assert {one.name for one in MORE} <= set(CrawlRequest.__dataclass_fields__)
