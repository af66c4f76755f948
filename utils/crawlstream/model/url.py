"""What a URL is known by: its identity within a crawl, its host, and the domain of that.

The *identity* of an address (``model.web.address``) is the spelling that its fingerprint is of.
Addresses of one page share it though they are spelled differently: the order of the query's
arguments, escapes and empty arguments do not count, as for Scrapy's fingerprints
(``w3lib.url.canonicalize_url``). It is compared and stored as a hash, and never sent. For addresses
that are spelled plainly it must stay as it is, bit for bit: the frontiers and memories of running
clusters are full of its hashes.
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
"""Hosts whose domains are remembered: about 15 MB, and a broad crawl meets each one often."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_STRIPPED = "".join(map(chr, range(0x21)))
"""What browsers strip around a URL: the C0 control characters and the space."""

_PLACE = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*)://(\[[^\]]*\]|[^/?#:@\[\]\\]*)(?::([0-9]{0,5}))?(?=[/?#]|\Z)"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST_AND_PORT = re.compile(r"[^:/?#@\[\]\\]+:[0-9]{1,5}(?=[/?#]|\Z)|\[[^\]]*\]")

_WRITTEN_HOST = re.compile(
    r"(?:https?://)?(?:\*?\.)?(\[[^\]]*\]|[^/?#@:\[\]\\*]+)(?::([0-9]{1,5}))?/?", re.IGNORECASE
)
"""A host as people write it, perhaps with a scheme, a ``*.`` in front, or a port."""

_PATH = r"/[A-Za-z0-9_.~/,:@!$&'()*+=-]*(?:%(?:20|[89A-F][0-9A-F])[A-Za-z0-9_.~/,:@!$&'()*+=-]*)*"
_KEY = r"[A-Za-z0-9_.~-]+"
_VALUE = r"[A-Za-z0-9_.~+-]*(?:%(?:2[125-9A-CF]|3[ABDF]|[89A-F][0-9A-F])[A-Za-z0-9_.~+-]*)*"
_PLAIN = re.compile(rf"({_PATH})(?:\?({_KEY}={_VALUE}(?:&{_KEY}={_VALUE})*))?")
"""Path and query in which the identity differs by the order of arguments at most: most links."""

_PLAIN_URL = re.compile(
    rf"(https?)://([^/?#\\@]+)({_PATH}(?:\?{_KEY}={_VALUE}(?:&{_KEY}={_VALUE})*)?)"
)
"""A URL that is its own address but for its host: most of them."""

SUFFIXES = TLDExtract(suffix_list_urls=(), cache_dir=None)
"""The bundled list, ICANN section; never the network."""


def canonical(url: str) -> str:
    """Return the identity of an absolute URL; applied twice it changes nothing.

    InvalidUrl says in a sentence why a URL cannot be crawled.
    """
    return _identity(link_url(url))


def link_url(url: str) -> str:
    """Return the address of an absolute URL as a link: without its fragment. InvalidUrl."""
    return _checked_length(without_fragment(address(url)))


def seed_url(text: str) -> str:
    """Return the address of a seed as a client writes it: ``http://`` may be left out.

    The fragment stays. InvalidUrl says in a sentence why the seed cannot be crawled.
    """
    text = text.strip(_STRIPPED)
    if not text.startswith(("http://", "https://")):
        text = _with_scheme(text)
    return _checked_length(address(text))


def look_up_seed(text: str) -> tuple[str, str, str | None]:
    """Return a seed's address, its domain key, and its fingerprint by GET where that costs no more.

    ``seed_url``, ``domain_key`` and ``fingerprint`` return the same one by one, in three times the
    time for the plain ones.
    """
    match = _PLAIN_URL.fullmatch(text)
    if match is None or "/." in match[3]:
        url = seed_url(text)
        return url, domain_key(host_of(url)), None
    url, same, domain = _plain_link(text, match)
    return url, domain, _digest(f"GET {same} 0  ".encode())


def look_up_link(url: str, salt: str = "") -> tuple[str, str, str]:
    """Return an absolute link's address, its domain key, and its fingerprint by GET.

    ``address``, ``domain_key`` and ``fingerprint`` return the same one by one, in three times the
    time for the plain ones. InvalidUrl says in a sentence why the link cannot be crawled.
    """
    match = _PLAIN_URL.fullmatch(url)
    if match is None or "/." in match[3]:
        clean = link_url(url)
        same, domain = _identity(clean), domain_key(host_of(clean))
    else:
        clean, same, domain = _plain_link(url, match)
    return clean, domain, _digest(f"GET {same} {len(salt)} {salt} ".encode())


def _plain_link(url: str, match: re.Match[str]) -> tuple[str, str, str]:
    """Return address, identity and domain key of a URL in which only the host can need a change."""
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
    """Return what w3lib makes of an address, with those characters encoded that Scrapy encodes."""
    same = canonicalize_url(url)
    return safe_url_string(same) if any(mark in same for mark in "|[]") else same


def host_of(url: str) -> str:
    """The host of a canonical or seed URL, without port and without the brackets of IPv6."""
    return _host_and_port(url)[0].strip("[]")


def host_rule(text: str) -> str:
    """Return the canonical ``host`` or ``host:port`` of a host as a person writes it.

    Accepts upper case, its own script, a trailing dot, ``https://``, a leading ``*.`` or ``.``, and
    IPv6 with or without brackets, which it keeps or adds. InvalidUrl for anything else.
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
    """Return the same without brackets; InvalidUrl where there is a port."""
    host = host_rule(text)
    if host.endswith("]"):
        return host[1:-1]
    if ":" in host:
        raise InvalidUrl(f"{text[:100]!r} has a port, which means nothing here: leave it out")
    return host


@lru_cache(_HOSTS_REMEMBERED)
def fold_host(text: str) -> str:
    """Return the same; text that is no host in lower case, as it is."""
    try:
        return host_name(text)
    except InvalidUrl:
        return text.strip().strip("[]").removesuffix(".").lower()


def port_of(url: str) -> int:
    """The port of an address."""
    return int(_host_and_port(url)[1] or _DEFAULT_PORTS[url.partition(":")[0]])


def origin_of(url: str) -> str:
    """``scheme://host:port`` of a canonical or seed URL, always with its port."""
    host, port = _host_and_port(url)
    scheme = url.partition(":")[0]
    return f"{scheme}://{host}:{port or _DEFAULT_PORTS[scheme]}"


@lru_cache(_HOSTS_REMEMBERED)
def canonical_host(host: str) -> str:
    """Return a host as URLs are stored with it: lower-case ASCII, no trailing dot, no brackets.

    Text that is no host at all comes back in lower case.
    """
    bare = host.strip().strip("[]").removesuffix(".").lower()
    try:
        return host_of(address(f"http://[{bare}]/" if ":" in bare else f"http://{bare}/"))
    except InvalidUrl:
        return bare


@lru_cache(_HOSTS_REMEMBERED)
def domain_key(host: str) -> str:
    """The domain that a host's requests are counted under: its registrable domain.

    By the bundled public-suffix list, ICANN section (``github.io`` is one domain). An address, a
    single label and a name under no public suffix are their own domain; see ``canonical_host``.
    """
    name = canonical_host(host)
    if ":" in name:
        return name
    return SUFFIXES.extract_str(name).top_domain_under_public_suffix or name


@lru_cache(_HOSTS_REMEMBERED)
def unlikely_host(host: str) -> str:
    """Why a host is hardly one of the internet's, in words; empty for addresses and most names."""
    name = domain_key(host)
    if name == "localhost" or ":" in name or SUFFIXES.extract_str(name).ipv4:
        return ""
    if "." not in name:
        return f"{name}: a host name without a dot; no such top-level domain"
    last = name.rpartition(".")[2]
    return "" if SUFFIXES.extract_str(name).suffix else f"{name}: no such top-level domain {last!r}"


def fingerprint(url: str, method: str = "GET", body: bytes = b"", salt: str = "") -> str:
    """The identity of a request within its crawl: a signed 64-bit number as decimal text.

    Requests that differ only in spelling share it; ``salt`` sets apart what must not be deduped.
    """
    text = f"{method} {canonical(url)} {len(salt)} {salt} "
    return _digest(text.encode("utf-8", "surrogatepass") + body)


def entry_id(crawl: CrawlKey, run: int, fingerprint: str, origin: str | None) -> str:
    """The name of an entry for ever: 128 bits as hex, the same through retries and replays.

    ``origin`` is a seed's ``topic-partition-offset``: the same seed fed twice is two entries.
    """
    parts = (crawl.spiderid, crawl.appid, crawl.crawlid, str(run), fingerprint, origin or "")
    sized = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(sized.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _digest(identity: bytes) -> str:
    digest = blake2b(identity, digest_size=8).digest()
    return str(int.from_bytes(digest, "big", signed=True))


def _with_scheme(text: str) -> str:
    """The URL that a person means who leaves out ``http:`` or ``http://``."""
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
    """Return the authority of a URL as its address has it, and the domain key of its host."""
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
    """Return the host of a URL as its address has it; an IPv6 address in brackets."""
    return _host_and_port(address(url))[0]


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True
