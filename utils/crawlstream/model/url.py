"""Names of a URL: its identity within a crawl, its host, and the domain of the host.

The *identity* of an address (``model.web.address``) is the spelling from which its fingerprint is
computed. Different spellings of a page's address share it: the order of the query's arguments,
escapes and empty arguments do not count, as for Scrapy's fingerprints
(``w3lib.url.canonicalize_url``). It is compared and stored as a hash, and never sent. For addresses
in plain spelling it must never change by a bit: the frontiers and memories of running clusters
store its hashes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from ipaddress import AddressValueError, IPv6Address

from tldextract import TLDExtract
from w3lib.url import canonicalize_url, safe_url_string  # noqa: TID251  for identities

from crawlstream.errors import InvalidUrl
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.web.address import MAX_URL_LENGTH, address, without_fragment

_HOSTS_REMEMBERED = 65536
"""Hosts whose domains are cached: about 15 MB. A broad crawl meets each host often."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_STRIPPED = "".join(map(chr, range(0x21)))
"""Characters that browsers strip around a URL: the C0 controls and the space."""

_PLACE = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*)://(\[[^\]]*\]|[^\x00-\x20/?#:@\[\]\\]+)(?::([0-9]{0,5}))?(?=[/?#]|\Z)"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST_AND_PORT = re.compile(r"[^:/?#@\[\]\\]+:[0-9]{1,5}(?=[/?#]|\Z)|\[[^\]]*\]")

_WRITTEN_HOST = re.compile(
    r"(?:https?://)?(?:\*?\.)?(\[[^\]]*\]|[^/?#@:\[\]\\*]+)(?::([0-9]{1,5}))?/?", re.IGNORECASE
)
"""Host as people write it, with an optional scheme, leading ``*.``, and port."""

_PATH = r"/[A-Za-z0-9_.~/,:@!$&'()*+=-]*(?:%(?:20|[89A-F][0-9A-F])[A-Za-z0-9_.~/,:@!$&'()*+=-]*)*"
_KEY = r"[A-Za-z0-9_.~-]+"
_VALUE = r"[A-Za-z0-9_.~+-]*(?:%(?:2[125-9A-CF]|3[ABDF]|[89A-F][0-9A-F])[A-Za-z0-9_.~+-]*)*"
_PLAIN = re.compile(rf"({_PATH})(?:\?({_KEY}={_VALUE}(?:&{_KEY}={_VALUE})*))?")
"""Path and query whose identity differs at most by the order of arguments: most links."""

_PLAIN_URL = re.compile(
    rf"(https?)://([^/?#\\@]+)({_PATH}(?:\?{_KEY}={_VALUE}(?:&{_KEY}={_VALUE})*)?)"
)
"""URL that equals its address except for the host: most URLs."""

SUFFIXES = TLDExtract(suffix_list_urls=(), cache_dir=None)
"""Bundled public-suffix list, ICANN section; it is never downloaded."""


def canonical(url: str) -> str:
    """Return the identity of an absolute URL; the identity of an identity is the same.

    Raise InvalidUrl with a sentence that says why a URL cannot be crawled.
    """
    return _identity(link_url(url))


def link_url(url: str) -> str:
    """Return the address of an absolute URL without its fragment; raise InvalidUrl."""
    return _checked_length(without_fragment(address(url)))


def seed_url(text: str) -> str:
    """Return the address of a seed as a client writes it: ``http://`` is optional.

    The fragment stays. Raise InvalidUrl with a sentence that says why it cannot be crawled.
    """
    text = text.strip(_STRIPPED)
    if not text.startswith(("http://", "https://")):
        text = _with_scheme(text)
    return _checked_length(address(text))


def look_up_seed(text: str) -> tuple[str, str, str | None]:
    """Return a seed's address, domain key, and fingerprint by GET (None if it costs extra time).

    ``seed_url``, ``domain_key`` and ``fingerprint`` return the same values, but take three times as
    long for plain URLs.
    """
    match = _PLAIN_URL.fullmatch(text)
    if match is None or "/." in match[3]:
        url = seed_url(text)
        return url, domain_key(host_of(url)), None
    url, same, domain = _plain_link(text, match)
    return url, domain, _digest(f"GET {same} 0  ".encode())


def look_up_link(url: str, salt: str = "") -> tuple[str, str, str]:
    """Return an absolute link's address, its domain key, and its fingerprint by GET.

    ``address``, ``domain_key`` and ``fingerprint`` return the same values, but take three times as
    long for plain URLs. Raise InvalidUrl with a sentence that says why it cannot be crawled.
    """
    match = _PLAIN_URL.fullmatch(url)
    if match is None or "/." in match[3]:
        clean = link_url(url)
        same, domain = _identity(clean), domain_key(host_of(clean))
    else:
        clean, same, domain = _plain_link(url, match)
    return clean, domain, _digest(f"GET {same} {len(salt)} {salt} ".encode())


def _plain_link(url: str, match: re.Match[str]) -> tuple[str, str, str]:
    """Return address, identity and domain key of a URL that can only need a change of its host."""
    scheme, authority, rest = match.groups()
    netloc, domain = _place_of(scheme, authority)
    clean = _checked_length(url if netloc == authority else f"{scheme}://{netloc}{rest}")
    return clean, _identity(clean) if "&" in rest else clean, domain


def _identity(clean: str) -> str:
    """Return the identity of an address without fragment."""
    match = _PLACE.match(clean)
    rest = clean[match.end() :] if match else ""
    plain = _PLAIN.fullmatch(rest)
    if match is None or plain is None:
        return _identity_slowly(clean)
    path, query = plain.groups()
    if query and "&" in query:
        return f"{match[0]}{path}?{_sorted(query)}"
    return clean


def _sorted(query: str) -> str:
    """Return the arguments of a plain query, ordered by the bytes of key and value, decoded."""
    if "%" in query or "+" in query:
        return canonicalize_url(f"http://host/?{query}").partition("?")[2]
    return "&".join(map("".join, sorted(part.partition("=") for part in query.split("&"))))


def _identity_slowly(url: str) -> str:
    """Return the identity by w3lib, with the characters escaped that Scrapy also escapes."""
    same = canonicalize_url(url)
    return safe_url_string(same) if any(mark in same for mark in "|[]") else same


def host_of(url: str) -> str:
    """Return the host of a canonical or seed URL, without port and without IPv6 brackets."""
    return _host_and_port(url)[0].strip("[]")


def host_rule(text: str) -> str:
    """Return the canonical ``host`` or ``host:port`` of a host as a person writes it.

    Accept upper case, non-Latin scripts, a trailing dot, ``https://``, a leading ``*.`` or ``.``,
    and IPv6 with or without brackets, which are kept or added. Raise InvalidUrl for other text.
    """
    written = text.strip(_STRIPPED)
    if _is_ipv6(written):
        written = f"[{written}]"
    match = _WRITTEN_HOST.fullmatch(written)
    if match is None:
        raise InvalidUrl(f"{text[:100]!r} is not a host: write it like example.com")
    host = _authority(f"http://{match[1]}/")
    if host != match[1].removesuffix(".") and SUFFIXES.extract_str(host).ipv4:
        raise InvalidUrl(f"{text[:100]!r} is a number, not a host: write it like 127.0.0.1")
    if not match[2]:
        return host
    if not 0 < int(match[2]) < 65536:
        raise InvalidUrl(f"{match[2]} is not a valid port")
    return f"{host}:{int(match[2])}"


def host_name(text: str) -> str:
    """Return the canonical host without brackets; raise InvalidUrl if there is a port."""
    host = host_rule(text)
    if host.endswith("]"):
        return host[1:-1]
    if ":" in host:
        raise InvalidUrl(f"{text[:100]!r} has a port, which means nothing here: leave it out")
    return host


@lru_cache(_HOSTS_REMEMBERED)
def fold_host(text: str) -> str:
    """Return the canonical host; only lower the case of text that is not a valid host."""
    try:
        return host_name(text)
    except InvalidUrl:
        return text.strip().strip("[]").removesuffix(".").lower()


def port_of(url: str) -> int:
    """Return the port of an address."""
    return int(_host_and_port(url)[1] or _DEFAULT_PORTS[url.partition(":")[0]])


def origin_of(url: str) -> str:
    """Return ``scheme://host:port`` of a canonical or seed URL, always with its port."""
    host, port = _host_and_port(url)
    scheme = url.partition(":")[0]
    return f"{scheme}://{host}:{port or _DEFAULT_PORTS[scheme]}"


@lru_cache(_HOSTS_REMEMBERED)
def canonical_host(host: str) -> str:
    """Return a host as in stored URLs: lower-case ASCII, without trailing dot and brackets.

    Text that is not a valid host is returned in lower case.
    """
    bare = host.strip().strip("[]").removesuffix(".").lower()
    try:
        return host_of(address(f"http://[{bare}]/" if ":" in bare else f"http://{bare}/"))
    except InvalidUrl:
        return bare


@lru_cache(_HOSTS_REMEMBERED)
def domain_key(host: str) -> str:
    """Return the domain for which a host's requests are counted: its registrable domain.

    It follows the bundled public-suffix list, ICANN section (``github.io`` is one domain). An IP
    address, a single label and a name without a public suffix are their own domain; see
    ``canonical_host``.
    """
    name = canonical_host(host)
    if ":" in name:
        return name
    return SUFFIXES.extract_str(name).top_domain_under_public_suffix or name


@lru_cache(_HOSTS_REMEMBERED)
def unlikely_host(host: str) -> str:
    """Return why a host is unlikely to be on the internet; empty for addresses and most names."""
    name = domain_key(host)
    if name == "localhost" or ":" in name or SUFFIXES.extract_str(name).ipv4:
        return ""
    if "." not in name:
        return f"{name}: a host name without a dot; no such top-level domain"
    last = name.rpartition(".")[2]
    return "" if SUFFIXES.extract_str(name).suffix else f"{name}: no such top-level domain {last!r}"


def fingerprint(url: str, method: str = "GET", body: bytes = b"", salt: str = "") -> str:
    """Return the identity of a request within its crawl: a signed 64-bit number as decimal text.

    Requests that differ only in spelling share it; ``salt`` makes a request unique that must not be
    deduplicated.
    """
    text = f"{method} {canonical(url)} {len(salt)} {salt} "
    return _digest(text.encode("utf-8", "surrogatepass") + body)


def entry_id(crawl: CrawlKey, run: int, fingerprint: str, origin: str | None) -> str:
    """Return the permanent name of an entry: 128 bits as hex, unchanged by retries and replays.

    ``origin`` is a seed's ``topic-partition-offset``: a seed that is fed twice has two entries.
    """
    parts = (crawl.spiderid, crawl.appid, crawl.crawlid, str(run), fingerprint, origin or "")
    sized = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(sized.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _digest(identity: bytes) -> str:
    digest = blake2b(identity, digest_size=8).digest()
    return str(int.from_bytes(digest, "big", signed=True))


def _with_scheme(text: str) -> str:
    """Return text with ``http:`` or ``http://`` in front if a person has left it out."""
    if not text:
        raise InvalidUrl("the URL is empty")
    if text.startswith("//"):
        return f"http:{text}"
    if text.startswith(("/", "\\")):
        raise InvalidUrl("the URL has no host")
    if _HOST_AND_PORT.match(text) or not _SCHEME.match(text):
        return f"http://{text}"
    return text


@lru_cache(_HOSTS_REMEMBERED)
def _place_of(scheme: str, authority: str) -> tuple[str, str]:
    """Return the authority of a URL as in its address, and the domain key of its host."""
    place = address(f"{scheme}://{authority}/")
    return place[len(scheme) + 3 : -1], domain_key(host_of(place))


def _checked_length(url: str) -> str:
    if len(url) > MAX_URL_LENGTH:
        raise InvalidUrl(f"the URL is longer than {MAX_URL_LENGTH} characters")
    return url


def _host_and_port(url: str) -> tuple[str, str]:
    match = _PLACE.match(url)
    if match is None:
        raise InvalidUrl(f"{url[:100]!r} is not an absolute URL")
    return match[2], match[3] or ""


def _authority(url: str) -> str:
    """Return the host of a URL as in its address; an IPv6 address in brackets."""
    return _host_and_port(address(url))[0]


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True
