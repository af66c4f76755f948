"""Parameters that are dropped from links, and those that are kept, by a crawl and the operator."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from crawlstream.model.web.url_parameters import ANY_END, Parameters

_RULES_KEPT = 128
_NAMES_KEPT = 4_096


class _Names:
    """Names of parameters, some of which stand for all that begin like them."""

    def __init__(self, names: Iterable[str]) -> None:
        names = tuple(names)
        self._whole = frozenset(names)
        self._beginnings = tuple(name[:-1] for name in names if name.endswith(ANY_END))

    def have(self, name: str) -> bool:
        return name in self._whole or name.startswith(self._beginnings)


class ParameterRules:
    """Rules of parameters: those of the crawl before the operator's, ``keep`` before ``drop``.

    A parameter without a rule stays, unless the waste guard drops it.
    """

    def __init__(self, crawl: Parameters, operator: Parameters) -> None:
        self._levels = [
            (is_kept, _Names(names))
            for each in (crawl, operator)
            for is_kept, names in ((True, each.keep), (False, each.drop))
        ]
        self._is_kept = lru_cache(_NAMES_KEPT)(self._find)

    def _find(self, name: str) -> bool | None:
        return next((is_kept for is_kept, names in self._levels if names.have(name)), None)

    def keeps(self, name: str) -> bool:
        """Return whether a parameter is not the waste guard's to judge."""
        return self._is_kept(name) is True

    def clean(self, url: str) -> str:
        """Return a URL without its dropped parameters, otherwise as the site has written it."""
        address, mark, rest = url.partition("?")
        if not mark or "#" in address:
            return url
        query, hash_, fragment = rest.partition("#")
        arguments = query.split("&")
        kept = [each for each in arguments if self._is_kept(each.partition("=")[0]) is not False]
        if len(kept) == len(arguments):
            return url
        return address + mark * bool(kept) + "&".join(kept) + hash_ + fragment


@lru_cache(_RULES_KEPT)
def parameter_rules(
    crawl: Parameters | None, keep: tuple[str, ...], drop: tuple[str, ...]
) -> ParameterRules | None:
    """Return the rules of a crawl and of the operator, whose names are ``keep`` and ``drop``.

    None: there are none.
    """
    if crawl is None and not (keep or drop):
        return None
    return ParameterRules(crawl or Parameters(), Parameters(keep=keep, drop=drop))
