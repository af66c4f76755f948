"""The Referer of a request, as browsers send it.

Unless the page says otherwise (``Referrer-Policy``), other origins learn the origin of a page and
not its path, and an https page is never named without encryption. URLs are canonical, or seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crawlstream.model.url import origin_of

Policy = Callable[[str, str], str]
"""From a page's URL and that of a request to its Referer; empty: none."""

_LONGEST_POLICY = 1000
"""Characters of the header that are read."""


def usual(page: str, url: str) -> str:
    """``strict-origin-when-cross-origin``: the policy of pages that name none."""
    if _share_origin(page, url):
        return _whole(page, url)
    return _unless_worse(_origin, page, url)


def _share_origin(page: str, url: str) -> bool:
    """Most do, and are spelled alike."""
    return page.split("/", 3)[:3] == url.split("/", 3)[:3] or origin_of(page) == origin_of(url)


def _nothing(_page: str, _url: str) -> str:
    return ""


def _whole(page: str, _url: str) -> str:
    return page.partition("#")[0]


def _origin(page: str, _url: str) -> str:
    scheme, _, rest = page.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0].partition('#')[0]}/"


def _unless_worse(policy: Policy, page: str, url: str) -> str:
    is_worse = page.startswith("https:") and not url.startswith("https:")
    return "" if is_worse else policy(page, url)


def _same_origin(page: str, url: str) -> str:
    return _whole(page, url) if _share_origin(page, url) else ""


def _origin_when_cross_origin(page: str, url: str) -> str:
    return _same_origin(page, url) or _origin(page, url)


_POLICIES: dict[str, Policy] = {
    "no-referrer": _nothing,
    "no-referrer-when-downgrade": lambda page, url: _unless_worse(_whole, page, url),
    "origin": _origin,
    "origin-when-cross-origin": _origin_when_cross_origin,
    "same-origin": _same_origin,
    "strict-origin": lambda page, url: _unless_worse(_origin, page, url),
    "strict-origin-when-cross-origin": usual,
    "unsafe-url": _whole,
}


def policy_of(headers: Iterable[bytes]) -> Policy:
    """Return the last known policy in the ``Referrer-Policy`` of a page, if any."""
    said = b",".join(headers)[-_LONGEST_POLICY:].decode("latin-1").lower()
    names = [name for each in said.split(",") if (name := each.strip()) in _POLICIES]
    return _POLICIES[names[-1]] if names else usual
