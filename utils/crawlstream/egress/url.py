"""Lines with the address of a proxy: URLs, and ``host:port:user:password`` of providers' lists."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import cast
from urllib.parse import unquote

from crawlstream.errors import BadTable
from crawlstream.model.egress.pools import SCHEMES, Proxy, Scheme, Secret

LONGEST = 1024
"""Maximum characters of a line."""

_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:(?P<userinfo>.*)@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]@:/?#]+):(?P<port>[0-9]{1,5})/?",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def read_url(text: str) -> Proxy:
    """Return the proxy in a URL; raise BadTable with the problem, without text of the line."""
    if len(text) > LONGEST:
        raise BadTable(f"has {len(text)} characters, more than the {LONGEST} allowed")
    found = _URL.fullmatch(text.strip())
    if found is None:
        raise BadTable("is no URL like http://user:password@host:port")
    scheme = found["scheme"].lower()
    if scheme not in SCHEMES:
        raise BadTable(f"has a scheme that is none of {', '.join(sorted(SCHEMES))}")
    user, _, password = (found["userinfo"] or "").partition(":")
    user, password = unquote(user), unquote(password)
    return _proxy(scheme, found["host"], found["port"], user=user, password=password)


def read_line(text: str) -> Proxy:
    """Return the proxy in a line of a list; a line that is not a URL has the scheme http."""
    text = text.strip()
    if "://" in text:
        return read_url(text)
    parts = text.split(":", 3)
    if len(parts) == 4 and parts[1].isdigit() and len(text) <= LONGEST:
        host, port, user, password = parts
        return _proxy("http", host, port, user=user, password=password)
    return read_url(f"http://{text}")


def _proxy(scheme: str, host: str, port: str, *, user: str, password: str) -> Proxy:
    if not 0 < int(port) <= 65_535:
        raise BadTable("has a port that is not between 1 and 65535")
    if _CONTROL.search(user + password):
        raise BadTable("has a control character in its user name or password")
    if scheme != "socks5" and ":" in user:
        raise BadTable("has a colon in its user name, which HTTP cannot send")
    if scheme == "socks5" and (len(user.encode()) > 255 or len(password.encode()) > 255):
        raise BadTable("has a user name or password over 255 bytes, which SOCKS cannot send")
    return Proxy(
        scheme=cast(Scheme, scheme),
        host=_host(host.strip("[]")),
        port=int(port),
        user=user,
        password=Secret(password),
    )


def _host(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    if not _NAME.fullmatch(host) or len(host) > 253:
        raise BadTable("has a host that is neither a name nor an address")
    return host.removesuffix(".").lower()
