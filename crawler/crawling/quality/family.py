"""Families: sets of URLs of one site that are likely to be alike.

A family is named by a query parameter (``?sort``), by another host name of the site (``host``), or
by the form of a path (``/events/#/#``). Families are coarse, so that an endless part of a site is
few of them however it names its pages.
"""

from __future__ import annotations

import re

from crawlstream.model.url import host_of

OTHER_HOST = "host"
"""Family of the URLs whose host is not the main one of their site."""
PARAMETER = "?"
"""First character of a family that is named by a parameter."""

_LONGEST_WORD = 16
"""Characters of a first segment that is kept as it is."""
_MOST_SEGMENTS = 8
_MOST_PARAMETERS = 16
"""Different parameters of a URL that count."""
_LONGEST_PARAMETER = 64
"""Characters of a parameter's name that count."""
_REST = re.compile(r"[^:]*://[^/?#]*([^?#]*)(?:\?([^#]*))?")


def families_of(url: str, site_main_host: str) -> tuple[str, ...]:
    """Return the families of an address; at least one.

    One with parameters, or on another host than ``site_main_host``, belongs to these families and
    not to that of its path. ``www.`` makes no other host. An empty ``site_main_host`` is not known.
    """
    match = _REST.match(url)
    path, query = match.groups() if match else ("", None)
    found = [PARAMETER + name for name in _names_in(query)] if query else []
    if site_main_host and _bare(host_of(url)) != _bare(site_main_host):
        found.append(OTHER_HOST)
    return tuple(found) or (_form_of(path),)


def path_family(url: str) -> str:
    """Return the family of an address by its path alone."""
    match = _REST.match(url)
    return _form_of(match[1] if match else "")


def _names_in(query: str) -> list[str]:
    """Return the different names of a query's arguments, in their order, as they are written.

    The name of an argument that is only a number is ``#``.
    """
    names: dict[str, None] = {}
    for argument in query.split("&"):
        name, equals, _value = argument.partition("=")
        if not equals and name.isdecimal():
            name = "#"
        if name:
            names[name[:_LONGEST_PARAMETER]] = None
            if len(names) == _MOST_PARAMETERS:
                break
    return list(names)


def _form_of(path: str) -> str:
    """Return the first segment of a path, if it is a word, and the kinds of all others."""
    first, *others = path.strip("/").split("/", _MOST_SEGMENTS)[:_MOST_SEGMENTS]
    is_word = len(first) <= _LONGEST_WORD and first.isascii() and first.isalpha()
    kinds = [first if is_word else _kind_of(first), *map(_kind_of, others)]
    return "/" + "/".join(kinds)


def _kind_of(segment: str) -> str:
    return "#" if segment.isascii() and segment.isdigit() else "*"


def _bare(host: str) -> str:
    return host.removeprefix("www.")
