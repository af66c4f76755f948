"""Statements of pages by which their bodies are not kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

_DATE = "unavailable_after="


class BodyBan(StrEnum):
    """Statement of a page by which a crawl, or a pipeline, does not keep its body."""

    NOINDEX = "noindex"
    NOARCHIVE = "noarchive"
    RESERVED = "reserved"
    """Its site reserves the use that is the purpose of its crawl."""


def ban_of(
    directives: Sequence[str],
    obeyed: Collection[str],
    at: float,
    rights: Mapping[str, object] | None = None,
) -> str | None:
    """Return the first of the obeyed bans that a page says at a time; None if it says none.

    ``directives`` and ``rights`` are those of its result. From its date ``unavailable_after`` on,
    a page is like one with ``noindex``.
    """
    for ban in (BodyBan.NOINDEX, BodyBan.NOARCHIVE):
        if ban in obeyed and (ban in directives or (ban == "noindex" and _is_over(directives, at))):
            return ban.value
    if rights and BodyBan.RESERVED in obeyed and rights.get("reserved") is True:
        return BodyBan.RESERVED.value
    return None


def _is_over(directives: Sequence[str], at: float) -> bool:
    dates = (text.removeprefix(_DATE) for text in directives if text.startswith(_DATE))
    return any(date.lstrip("-").isdecimal() and int(date) <= at for date in dates)
