"""The short cuts for plain references lead where the URL Standard leads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream.model.web.address import resolved
from crawlstream_extract.hrefs import Hrefs

BASE = "http://127.0.0.1:8000/part-1/page-41.html?q=1"

_ORIGINS = st.sampled_from(
    (
        *("", "/", "//127.0.0.1:8000", "http://127.0.0.1:8000", "HTTP://127.0.0.1:8000"),
        *("http://EXAMPLE.com", "http://example.com:80", "https://example.com:80"),
        *("http://127.1", "http://0x7f.1", "http://1.2.3.4.", "http://example.com."),
        *("http://a..b", "http://a-.example", "http://xn--", "http://-a", "http://a:", "http://:8"),
        *("http://a:65536", "http://a:080", "https://a.example:443", "https://a.example:8443"),
    )
)
_PARTS = st.lists(
    st.sampled_from(
        ("/", "a", "..", ".", "B", "~", "%7E", "?", "q=1", "#", "f", ";", "é", " ", ":")
    ),
    max_size=8,
).map("".join)


@given(_ORIGINS, _PARTS)
def test_every_reference_leads_where_the_standard_leads(origin: str, rest: str) -> None:
    """Resolves absolute and relative references alike, plain or not, as `resolved` does."""
    assert Hrefs(BASE, "utf-8").resolve(origin + rest) == resolved(BASE, origin + rest)


@pytest.mark.parametrize(
    ("href", "address"),
    [
        ("http://127.0.0.1:8000/a/b.html?c=d#e", "http://127.0.0.1:8000/a/b.html?c=d#e"),
        ("http://127.1/a", "http://127.0.0.1/a"),
        ("http://example.com:80/a", "http://example.com/a"),
        ("http://example.com./a", "http://example.com/a"),
        ("https://example.com/a/../b", "https://example.com/b"),
        ("http://a:65536/b", None),
        ("http://127.0.0.1:8000B", None),
        ("http://a.example?b", "http://a.example/?b"),
    ],
)
def test_an_absolute_reference_is_spelt_as_the_standard_spells_it(
    href: str, address: str | None
) -> None:
    """Returns a whole address unchanged only where it is canonical already."""
    assert Hrefs(BASE, "utf-8").resolve(href) == address
