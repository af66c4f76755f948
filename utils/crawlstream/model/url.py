"""URLs: the one form in which they are stored, deduped and fetched; hosts, domains, identities.

A URL is taken apart once, the way browsers do it, and what different parsers read differently is
refused rather than guessed: user names, percent signs, spaces and control characters in a host,
backslashes behind it, numbers that only some resolvers take for an address. So the host that was
checked is the host that is fetched. Which *addresses* may be fetched is not decided here.

Path and query follow ``w3lib.url.canonicalize_url``, the function behind Scrapy's fingerprints.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from ipaddress import AddressValueError, IPv4Address, IPv6Address

import idna
from tldextract import TLDExtract
from w3lib.url import canonicalize_url, safe_url_string

from crawlstream.errors import InvalidUrl
from crawlstream.model.crawl import CrawlKey

MAX_URL_LENGTH = 2083
"""Characters of a canonical URL; Scrapy's own limit, and that of the oldest browsers."""

_MAX_RAW_LENGTH = 16 * MAX_URL_LENGTH
"""Longer text is refused unread: a fragment that is dropped anyway may be long, not endless."""

_HOSTS_REMEMBERED = 65536
"""Hosts whose checks are remembered: about 15 MB, and a broad crawl meets each one often."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_STRIPPED = "".join(map(chr, range(0x21)))
"""What browsers strip around a URL: the C0 control characters and the space."""

_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\\]*)(.*)", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST_AND_PORT = re.compile(r"[^:/?#@\[\]\\]+:[0-9]{1,5}(?=[/?#]|\Z)|\[[^\]]*\]")
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]@]*)(?::([0-9]{0,5}))?")
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.DOTALL)
"""A name whose last label is a number: some resolvers take all of it for an IPv4 address."""

_WRITTEN_HOST = re.compile(
    r"(?:https?://)?(?:\*?\.)?(\[[^\]]*\]|[^/?#@:\[\]\\*]+)(?::([0-9]{1,5}))?/?", re.IGNORECASE
)
"""A host as people write it, perhaps with a scheme, a ``*.`` in front, or a port."""

_PATH = r"/[A-Za-z0-9_.~/,:@!$&'()*+=-]*(?:%(?:20|[89A-F][0-9A-F])[A-Za-z0-9_.~/,:@!$&'()*+=-]*)*"
_KEY = r"[A-Za-z0-9_.~-]+"
_VALUE = r"[A-Za-z0-9_.~+-]*(?:%(?:2[125-9A-CF]|3[ABDF]|[89A-F][0-9A-F])[A-Za-z0-9_.~+-]*)*"
_PLAIN = re.compile(rf"({_PATH})(?:\?({_KEY}={_VALUE}(?:&{_KEY}={_VALUE})*))?")
"""Path and query in which canonicalization finds nothing to do but sorting: most links."""

_SAFE = re.compile(
    r"(?:/[A-Za-z0-9_.~/,:;@!$&'()*+=%-]*(?:\?[A-Za-z0-9_.~/,:;@!$&()*+=%?-]+)?"
    r"(?:#[A-Za-z0-9_.~/,:;@!$&'()*+=%?-]+)?)?"
)
"""Path, query and fragment in which nothing is to be encoded: most seeds."""

_PLAIN_URL = re.compile(rf"(https?)://([^/?#\\@]+)({_PATH}(?:\?{_KEY}={_VALUE})?)")
"""A URL that is its own canonical form but for its host: most of them."""

SUFFIXES = TLDExtract(suffix_list_urls=(), cache_dir=None)
"""The bundled list, ICANN section; never the network."""


def canonical(url: str) -> str:
    """The one spelling of an absolute http or https URL; applying it twice changes nothing.

    Lower-case ASCII host, no default port, no fragment, dot segments resolved, query arguments
    sorted. InvalidUrl says in a sentence why a URL cannot be crawled.
    """
    scheme, netloc, rest = _take_apart(url)
    plain = _PLAIN.fullmatch(rest)
    if plain is None or "/." in rest:
        return _checked_length(_canonical_slowly(f"{scheme}://{netloc}{rest}"))
    path, query = plain.groups()
    if not query:
        return _checked_length(f"{scheme}://{netloc}{path}")
    if "&" in query:
        query = _sorted(query)
    return _checked_length(f"{scheme}://{netloc}{path}?{query}")


def _sorted(query: str) -> str:
    """The arguments of a plain query by key and value, as their bytes are before encoding."""
    if "%" in query or "+" in query:
        return canonicalize_url(f"http://host/?{query}").partition("?")[2]
    return "&".join(map("".join, sorted(part.partition("=") for part in query.split("&"))))


def seed_url(text: str) -> str:
    """A seed as a client writes it, made safe to fetch: ``http://`` is added where it is missing.

    Host and port become canonical; the order of the query and the fragment stay as they are.
    InvalidUrl says in a sentence why it cannot be crawled.
    """
    text = text.strip(_STRIPPED)
    if not text.startswith(("http://", "https://")):
        text = _with_scheme(text)
    scheme, netloc, rest = _take_apart(text)
    if _SAFE.fullmatch(rest):
        return _checked_length(f"{scheme}://{netloc}{rest}")
    try:
        return _checked_length(safe_url_string(f"{scheme}://{netloc}{rest}"))
    except ValueError as error:
        raise InvalidUrl("the URL contains characters that cannot be encoded") from error


def look_up_seed(text: str) -> tuple[str, str, str | None]:
    """A seed's URL, domain key, and its fingerprint by GET where that costs nothing more.

    As ``seed_url``, ``domain_key`` and ``fingerprint`` tell them one by one, in a third of the
    time for the plain ones.
    """
    match = _PLAIN_URL.fullmatch(text)
    if match is None or "/." in match[3]:
        url = seed_url(text)
        return url, domain_key(host_of(url)), None
    netloc, domain = _place_of(match[1], match[2])
    url = _checked_length(f"{match[1]}://{netloc}{match[3]}")
    return url, domain, _digest(f"GET {url} 0  ".encode())


def look_up_link(url: str) -> tuple[str, str, str]:
    """An absolute link's canonical URL, its domain key, and its fingerprint by GET.

    As ``canonical``, ``domain_key`` and ``fingerprint`` tell them one by one, in a third of the
    time for the plain ones. InvalidUrl says in a sentence why it cannot be crawled.
    """
    clean, domain = _clean_link(url)
    return clean, domain, _digest(b"GET %b 0  " % clean.encode())


def look_up_version(url: str, salt: str) -> tuple[str, str, str]:
    """The same, the fingerprint with a salt."""
    clean, domain = _clean_link(url)
    return clean, domain, _digest(f"GET {clean} {len(salt)} {salt} ".encode())


def _clean_link(url: str) -> tuple[str, str]:
    match = _PLAIN_URL.fullmatch(url)
    if match is None or "/." in match[3]:
        clean = canonical(url)
        return clean, domain_key(host_of(clean))
    scheme, authority, rest = match.groups()
    netloc, domain = _place_of(scheme, authority)
    clean = _checked_length(url if netloc == authority else f"{scheme}://{netloc}{rest}")
    return clean, domain


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
    host = _canonical_host(match[1])
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
        return _canonical_host(f"[{bare}]" if ":" in bare else bare).strip("[]")
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


def _take_apart(url: str) -> tuple[str, str, str]:
    """Scheme, checked authority, and the rest from the path on."""
    if len(url) > _MAX_RAW_LENGTH:
        raise InvalidUrl(f"the URL is longer than {MAX_URL_LENGTH} characters")
    match = _ABSOLUTE.fullmatch(url.strip(_STRIPPED))
    if match is None:
        raise InvalidUrl(_why_not_absolute(url))
    scheme, authority, rest = match.groups()
    scheme = scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise InvalidUrl(f"the scheme {scheme[:20]!r} is not http or https")
    if rest.startswith("\\"):
        raise InvalidUrl(
            "the URL has a backslash after the host, which programs interpret differently"
        )
    return scheme, _canonical_authority(scheme, authority), rest


def _with_scheme(text: str) -> str:
    """The URL that a person means who leaves out ``http:`` or ``http://``."""
    if not text:
        raise InvalidUrl("the URL is empty")
    if text.startswith("//"):
        return f"http:{text}"
    if _HOST_AND_PORT.match(text) or not _SCHEME.match(text):
        return f"http://{text}"
    return text


def _why_not_absolute(url: str) -> str:
    """The sentence for text that has no ``scheme://`` at its beginning."""
    if not url.strip(_STRIPPED):
        return "the URL is empty"
    scheme = _SCHEME.match(url.strip(_STRIPPED))
    if scheme is None:
        return "the URL has no scheme"
    if scheme[1].lower() in _DEFAULT_PORTS:
        return f"// is missing after {scheme[1]}:"
    return f"the scheme {scheme[1][:20]!r} is not http or https"


@lru_cache(_HOSTS_REMEMBERED)
def _canonical_authority(scheme: str, authority: str) -> str:
    """``host`` or ``host:port`` in canonical form."""
    if "@" in authority:
        raise InvalidUrl("user names and passwords in a URL are not supported")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise InvalidUrl(f"{authority[:100]!r} is not a host with an optional port")
    host = _canonical_host(match[1])
    if not match[2] or int(match[2]) == _DEFAULT_PORTS[scheme]:
        return host
    port = int(match[2])
    if not 0 < port < 65536:
        raise InvalidUrl(f"{port} is not a valid port")
    return f"{host}:{port}"


@lru_cache(_HOSTS_REMEMBERED)
def _place_of(scheme: str, authority: str) -> tuple[str, str]:
    """The canonical authority of a URL, and the domain key of its host."""
    netloc = _canonical_authority(scheme, authority)
    return netloc, domain_key(host_of(f"{scheme}://{netloc}/"))


def _canonical_host(host: str) -> str:
    """A name in lower-case ASCII, a dotted IPv4 address, or an IPv6 address in brackets."""
    if host.startswith("["):
        return _canonical_ipv6(host)
    name = host if host.isascii() else _to_ascii(host)
    name = name.lower().removesuffix(".")
    if not _NAME.fullmatch(name):
        raise InvalidUrl(
            f"{host[:100]!r} is not a valid host name" if host else "the URL has no host"
        )
    if _NUMBER.fullmatch(name) and not (host.isascii() and _is_ipv4(name)):
        raise InvalidUrl(f"{host[:100]!r} is a number, not a host name or dotted IP address")
    return name


def _to_ascii(host: str) -> str:
    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except ValueError as error:
        raise InvalidUrl(f"{host[:100]!r} is not a valid internationalized host name") from error


def _canonical_ipv6(host: str) -> str:
    if "%" in host:
        raise InvalidUrl("an IPv6 zone is only valid on one machine and is not supported")
    try:
        return f"[{IPv6Address(host[1:-1]).compressed}]"
    except AddressValueError as error:
        raise InvalidUrl(f"{host[:100]!r} is not a valid IPv6 address") from error


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _is_ipv4(name: str) -> bool:
    try:
        IPv4Address(name)
    except AddressValueError:
        return False
    return True


def _canonical_slowly(url: str) -> str:
    """What w3lib makes of a URL, with the characters encoded that Scrapy encodes on sending."""
    try:
        clean = canonicalize_url(url)
    except ValueError as error:
        raise InvalidUrl("the URL contains characters that cannot be encoded") from error
    return safe_url_string(clean) if any(mark in clean for mark in "|[]") else clean


def _checked_length(url: str) -> str:
    if len(url) > MAX_URL_LENGTH:
        raise InvalidUrl(f"the URL is longer than {MAX_URL_LENGTH} characters")
    return url


def _host_and_port(url: str) -> tuple[str, str]:
    match = _ABSOLUTE.match(url)
    authority = _AUTHORITY.fullmatch(match[2]) if match else None
    if authority is None:
        raise InvalidUrl(f"{url[:100]!r} is not an absolute URL")
    return authority[1], authority[2] or ""
