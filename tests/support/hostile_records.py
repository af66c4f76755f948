"""A corpus of records that are not requests: malformed, hostile, meant for something else.

Each has the reason it must be refused for. Families are made by rule: they cover a new field or
bound of a schema at once.
"""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

CRAWL = {"url": "http://example.com/", "appid": "hostile", "crawlid": "corpus"}
ACTION = {"uuid": "hostile", "appid": "hostile", "spiderid": "link", "action": "info"}
STATS = {"uuid": "hostile", "appid": "hostile", "stats": "all"}
ZOOKEEPER = {"uuid": "hostile", "appid": "hostile", "action": "domain-update", "domain": "a.com"}


class Hostile(NamedTuple):
    """A record's value, and why it must be refused."""

    name: str
    raw: bytes | None
    reason: str


def corpus() -> list[Hostile]:
    """Every record of the corpus; names are unique."""
    families = (_no_text, _no_json, _too_much, _bad_numbers_and_texts, _no_object)
    requests = (_wrong_types, _out_of_bounds, _unknown_or_missing, _control_characters)
    seeds = (_bad_urls, _bad_expressions, _bad_pairs)
    return [one for family in (*families, *requests, *seeds) for one in family()]


def _json(base: Mapping[str, Any], **fields: object) -> bytes:
    return json.dumps({**base, **fields}).encode()


_GOOD = _json(CRAWL)

_BYTES = {
    "a byte that begins nothing": b"\xff",
    "a continuation alone": b"\x80",
    "an overlong slash": b"\xc0\xaf",
    "an overlong NUL": b"\xe0\x80\x80",
    "a surrogate as bytes": b"\xed\xa0\x80",
    "beyond the last character": b"\xf5\x80\x80\x80",
    "above U+10FFFF": b"\xf4\x90\x80\x80",
    "a cut character": b"\xe2\x82",
    "Latin-1": "é".encode("latin-1"),
    "Shift JIS": "日本".encode("shift_jis"),
    "a five-byte form": b"\xf8\x88\x80\x80\x80",
}


def _no_text() -> Iterator[Hostile]:
    """An empty record, or bytes that are not UTF-8."""
    yield Hostile("no value", None, "empty")
    yield Hostile("an empty value", b"", "empty")
    for name, raw in _BYTES.items():
        for place, template in (("in the URL", b'{"url": "http://a.com/%b"}'), ("alone", b"%b")):
            yield Hostile(f"{name}, {place}", template % raw, "not_utf8")
        yield Hostile(f"{name}, behind it", _GOOD + raw, "not_utf8")
    foreign = {
        "gzip": gzip.compress(_GOOD, mtime=0),
        "UTF-16": _GOOD.decode().encode("utf-16"),
        "a pickle": pickle.dumps(CRAWL, protocol=4),
        "Java": b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap",
        "PNG": b"\x89PNG\r\n\x1a\n" + bytes(16),
        "zstd": b"\x28\xb5\x2f\xfd" + bytes(16),
        "msgpack": b"\x83\xa3url\xb3http://example.com/",
    }
    for name, raw in foreign.items():
        yield Hostile(f"another format: {name}", raw, "not_utf8")


_BROKEN = {
    "single quotes": b"{'url': 'http://a.com'}",
    "a trailing comma": b'{"url": "http://a.com",}',
    "a comment": b'{"url": "http://a.com"} // please',
    "a C comment": b'/* now */ {"url": "http://a.com"}',
    "names without quotes": b'{url: "http://a.com"}',
    "two objects": _GOOD + _GOOD,
    "two lines": _GOOD + b"\n" + _GOOD,
    "a prefix against hijacking": b")]}'\n" + _GOOD,
    "a padded callback": b"callback(" + _GOOD + b")",
    "a bare URL": b"http://example.com/",
    "HTML": b"<!doctype html><p>hi",
    "XML": b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>',
    "YAML": b"url: http://example.com/\nappid: hostile\n",
    "a YAML object": b"!!python/object/apply:os.system ['true']",
    "CSV": b"url,appid,crawlid\nhttp://a.com,hostile,corpus",
    "a form": b"url=http%3A%2F%2Fa.com&appid=hostile",
    "Python": b"{'url': None, 'appid': True}",
    "a template": b"{{ 7 * 7 }}",
    "shell": b"$(reboot); `reboot`",
    "SQL": b"'; DROP TABLE crawls; --",
    "Redis' protocol": b"*1\r\n$8\r\nFLUSHALL\r\n",
    "HTTP": b"GET / HTTP/1.1\r\nHost: a.com\r\n\r\n",
    "a NUL": b"\x00",
    "NULs": bytes(1000),
    "blanks": b" \t\r\n " * 10,
    "UTF-16 without a mark": _GOOD.decode().encode("utf-16-le"),
    "a mark in the middle": b"{\xef\xbb\xbf" + _GOOD[1:],
    "two marks": b"\xef\xbb\xbf" * 2 + _GOOD,
    "a line feed in a string": b'{"url": "http://a.com/\n"}',
    "a tab in a string": b'{"url": "http://a.com/\t"}',
    "a NUL in a string": b'{"url": "http://a.com/\x00"}',
    "an unknown escape": rb'{"url": "http://a.com/\x41"}',
    "half an escape": rb'{"url": "http://a.com/\u12"}',
    "an octal number": b'{"priority": 010}',
    "a hexadecimal number": b'{"priority": 0x10}',
    "a plus sign": b'{"priority": +1}',
    "a bare point": b'{"priority": .5}',
    "a number cut": b'{"priority": 1.}',
    "an exponent cut": b'{"priority": 1e}',
    "a lone minus": b'{"priority": -}',
    "underscores": b'{"priority": 1_000}',
    "Python's True": b'{"obey_robots": True}',
    "undefined": b'{"obey_robots": undefined}',
    "a closing bracket": b"]",
    "brackets crossed": b'{"a": [1}]',
    "a colon too many": b'{"a":: 1}',
    "a name that is a number": b'{1: "a"}',
    "an ellipsis": b"[1, 2, ...]",
}


def _no_json() -> Iterator[Hostile]:
    """Text that is not JSON, with every beginning of a good request."""
    for length in range(1, len(_GOOD)):
        yield Hostile(f"cut after {length} bytes", _GOOD[:length], "not_json")
    for name, raw in _BROKEN.items():
        yield Hostile(name, raw, "not_json")


def _too_much() -> Iterator[Hostile]:
    """More bytes or levels than a request may have."""
    yield Hostile("2 MiB and a byte", b" " * (2**21 + 1), "too_large")
    yield Hostile("a large value", _json(CRAWL, attrs={"x": "y" * 2**21}), "too_large")
    yield Hostile("many values", _json(CRAWL, attrs={"x": [0] * 2**20}), "too_large")
    yield Hostile("a URL without end", _json(CRAWL, url="http://a.com/" + "a" * 2**21), "too_large")
    for levels in (129, 255, 1_000, 100_000):
        yield Hostile(f"{levels} lists", b"[" * levels, "too_deep")
        yield Hostile(f"{levels} lists, closed", b"[" * levels + b"]" * levels, "too_deep")
        yield Hostile(f"{levels} objects", b'{"a":' * levels + b"1" + b"}" * levels, "too_deep")
        nested = b'{"attrs":' + b"[" * levels + b"]" * levels + b"}"
        yield Hostile(f"{levels} levels within a request", nested, "too_deep")
    mixed = b'[{"a":' * 100 + b"1" + b"}]" * 100
    yield Hostile("lists and objects in turns", mixed, "too_deep")
    quoted = b'{"}": "]]]\\"", "a": ' + b"[" * 200 + b"]" * 200 + b"}"
    yield Hostile("brackets in strings before them", quoted, "too_deep")


_NUMBERS = {
    "NaN": b"NaN",
    "Infinity": b"Infinity",
    "minus Infinity": b"-Infinity",
    "beyond a double": b"1e999",
    "beyond a double, below": b"-1e999",
    "more digits than anybody": b"9" * 5000,
    "a long exponent": b"1e" + b"9" * 100,
}
_SURROGATES = {
    "a high half": rb"\ud800",
    "a low half": rb"\udc00",
    "halves the wrong way round": rb"\udc00\ud800",
    "the last half": rb"\udfff",
    "a half before a letter": rb"\ud83da",
}


def _bad_numbers_and_texts() -> Iterator[Hostile]:
    """JSON that programs read differently."""
    for name, number in _NUMBERS.items():
        for place in (b'{"priority": %b}', b'{"attrs": {"a": [%b]}}', b"[%b]"):
            yield Hostile(f"{name} in {place.decode()}", place % number, "bad_number")
    for name, text in _SURROGATES.items():
        for place in (b'{"crawlid": "%b"}', b'{"attrs": {"%b": 1}}', b'["%b"]'):
            yield Hostile(f"{name} in {place.decode()}", place % text, "bad_text")


def _no_object() -> Iterator[Hostile]:
    """JSON, but not an object."""
    values = [[], [CRAWL], "", "http://a.com", json.dumps(CRAWL), 0, -1, 1.5, 10**30, True, None]
    for value in values:
        yield Hostile(f"instead of an object {str(value)[:40]!r}", _json_of(value), "not_an_object")


def _json_of(value: object) -> bytes:
    return json.dumps(value).encode()


_Values = tuple[object, ...]
_TEXT_FIELDS = ("appid", "crawlid", "url", "spiderid", "method")
_NUMBER_FIELDS = ("priority", "maxdepth", "domain_max_pages", "max_pages", "expires", "not_before")
_LIST_FIELDS = ("allowed_domains", "allow_regex", "deny_regex", "deny_extensions")
_NO_TEXT: _Values = (0, 1.5, True, [], ["http://a.com"], {}, {"$ne": None})
_NO_NUMBER: _Values = ("1", "", "many", True, [1], {"$gt": 0})
_NO_LIST: _Values = ("a.com", 1, True, {"0": "a"}, [1], [None], [["a"]], ["a", "a"])
_NO_PAIRS: _Values = ("a", 1, True, [], [["a", "b"]], {"a": 1}, {"a": None}, {"a": ["b"]})


def _wrong_types() -> Iterator[Hostile]:
    """Each field of a crawl request with values of other types."""
    wrong: tuple[tuple[tuple[str, ...], _Values], ...] = (
        (_TEXT_FIELDS, _NO_TEXT),
        (_NUMBER_FIELDS, _NO_NUMBER),
        (_LIST_FIELDS, _NO_LIST),
        (("headers", "cookies"), _NO_PAIRS),
        (("attrs",), ("a", 1, True, [], [{}])),
        (("obey_robots",), ("true", 1, 0, [], {})),
        (("proxy",), ("", 1, True, [], {}, "a b", "http://h:1", "a" * 65)),
        (("tls",), ("", 1, True, [], {}, "LEGACY", "ssl3", "default,legacy")),
        (
            ("drop",),
            ("noindex", [], ["reserved"], ["noindex", "noindex"], ["nosnippet"], [1], {}, True),
        ),
        (("purpose",), ("", "ai-train", "SEARCH", 1, True, [], {}, "None")),
        (("guard",), ("", "OFF", "eager", 1, True, [], {}, "None")),
        (("sitemaps",), ("", "ALSO", "always", 1, True, [], {}, "None")),
        (
            ("parameters",),
            ("a", 1, True, [], ["a"], {"drop": "a"}, {"drop": [1]}, {"off": ["a"]}),
        ),
        (("priorities",), ("a", 1, True, {}, [], [1], [{}], [{"add": "1"}], [{"rank": [1, 2]}])),
        (("directives",), ("", "OBEY", 1, True, [], {}, "always", "None")),
        (("purse",), ("", 1, True, [], {}, "a b", "a" * 41)),
        (
            ("max_price",),
            ("", 1, 0.01, "0.01", "USD", "USD 1e3", "usd 1", "USD 0.0000001", "USD 1 "),
        ),
        (("redirects",), ("", "ANY", 1, True, [], {}, None, "none")),
        (("uuid",), ("", 1, True, [], {})),
        (("answer",), ("", "PAGE", "page", 1, True, [], {}, None)),
        ((*_TEXT_FIELDS, "priority", "maxdepth", "expires"), (None,)),
    )
    for fields, values in wrong:
        for field, value in product(fields, values):
            raw = _json(CRAWL, **{field: value})
            yield Hostile(f"{field} as {json.dumps(value)}", raw, "bad_request")


def _out_of_bounds() -> Iterator[Hostile]:
    """Values of the right type that are too much or too little."""
    bounds: Mapping[str, _Values] = {
        "appid": ("", "ab", "a" * 41, "b" * 100_000),
        "crawlid": ("", "a" * 41),
        "uuid": ("a" * 41,),
        "spiderid": ("a" * 256,),
        "priority": (0, 101, -1, 2**63, 10**30, 1.0, 50.5),
        "maxdepth": (-1, 101, 301, 2**31, 1.0),
        "domain_max_pages": (-1, 2001, 2**40, 0.5),
        "max_pages": (-1, 10**12 + 1),
        "expires": (1.5, 1e300),
        "useragent": ("", "ab", "a" * 1001),
        "cookie": ("", "ab", "a" * 1001),
        "method": ("", "get", "TRACE", "CONNECT", "GET ", "GET / HTTP/1.1"),
    }
    for field, values in bounds.items():
        for value in values:
            raw = _json(CRAWL, **{field: value})
            yield Hostile(f"{field} of {json.dumps(value)[:40]}", raw, "bad_request")
    others: tuple[tuple[Mapping[str, Any], str, _Values], ...] = (
        (ACTION, "action", ("", "STOP", "flushall", "stop ", 1, None, [])),
        (ACTION, "priority", (0, 101, "1", 1.0)),
        (STATS, "stats", ("", "everything", "*", 1, None, [])),
        (ZOOKEEPER, "action", ("domain-drop", "", None, 1)),
        (ZOOKEEPER, "scale", (-0.1, 1.1, "1", None)),
        (ZOOKEEPER, "hits", (1.5, "1", None, [1])),
    )
    for base, field, values in others:
        for value in values:
            raw = _json(base, **{field: value})
            yield Hostile(f"{base} with {field} {value!r}", raw, "bad_request")


def _unknown_or_missing() -> Iterator[Hostile]:
    """Unknown fields, and missing ones that are required."""
    names = (
        "__proto__",
        "constructor",
        "__class__",
        "$where",
        "URL",
        "url ",
        "",
        "\x00",
        "a" * 999,
    )
    for name in names:
        yield Hostile(f"a field {name[:20]!r}", _json(CRAWL, **{name: 1}), "bad_request")
    many = {f"field{number}": number for number in range(10_000)}
    yield Hostile("ten thousand fields", _json(CRAWL, **many), "bad_request")
    yield Hostile("no field", b"{}", "bad_request")
    for base in (CRAWL, ACTION, STATS, ZOOKEEPER):
        for name in base:
            if name == "stats":
                continue
            fields = {key: value for key, value in base.items() if key != name}
            yield Hostile(f"{base} without {name}", _json(fields), "bad_request")
    yield Hostile("two kinds at once", _json(CRAWL, **ACTION), "bad_request")


def _control_characters() -> Iterator[Hostile]:
    """Characters that end lines, keys or logs where they are written."""
    for field in ("appid", "crawlid", "spiderid", "uuid", "useragent", "cookie"):
        for character in ("\0", "\n", "\r", "\x1b", "\x7f", "\x85", "\u2028"):
            raw = _json(CRAWL, **{field: f"abc{character}def"})
            yield Hostile(f"{field} with {character!r}", raw, "bad_request")
    for base in (ACTION, STATS):
        raw = _json(base, uuid="a\r\nSet-Cookie: b")
        yield Hostile(f"{base} with a line feed", raw, "bad_request")
    yield Hostile("a domain of two lines", _json(ZOOKEEPER, domain="a\nb"), "bad_request")


_URLS = (
    *(
        "",
        " ",
        "\t",
        "http://",
        "https://",
        "http:///",
        "http://?",
        "http://#",
        "//",
        "http:/",
    ),
    *("ftp://a.com/", "file:///etc/passwd", "gopher://a.com/", "javascript:alert(1)", "s3://b/k"),
    *("data:text/html,hi", "mailto:a@b.com", "ws://a.com/", "dict://a.com:11211/", "about:blank"),
    *("jar:http://a.com!/", "view-source:http://a.com", "blob:http://a.com/1", "ldap://a/"),
    *("http://user@a.com/", "http://user:word@a.com/", "http://a.com@b.com/", "http://a@@a.com/"),
    *("http://a@a.com\\b.com/", "\\a.com\\b", "/a.com", "http://a b.com/"),
    *("http://a.com:0/", "http://a.com:65536/", "http://a.com:99999/", "http://a.com:-1/"),
    *("http://a.com:http/", "http://a.com:80:80/", "http://[::1/", "http://::1/", "http://[v1.a]/"),
    *("http://[::ffff:127.0.0.1%25eth0]/", "http://[fe80::1%25lo]/", "http://[]/", "http://[g::]/"),
    *("http://4294967296/", "http://0x7f0000001/", "http://01777000000001/", "http://127.256.1/"),
    *("http://0x7fg.1/", "http://127.0.0.0x100000001/", "http://1.2.3.256/", "http://1.2.3.4.5/"),
    *(
        "http://a%00.com/",
        "http://a%20.com/",
        "http://a\0.com/",
        "http://a.123/",
        "http://a..com/",
    ),
    *("http://.a.com/", "http://" + "a" * 64 + ".com/", "http://" + "a." * 130 + "com/"),
    *("http://a.com/" + "a" * 2100, "http://a.com/?" + "a=b&" * 600),
    *(
        "http://a.\u2460\u2461\u2462/",
        "http://\uff11\uff12\uff17.0.0.256/",
        "http://a,b.com/",
        "http://a;b/",
    ),
    *(
        "http://a.com^b/",
        "http://{host}/",
        "http://<a>/",
        "http://a|b/",
        "http://`a`/",
        'http://"a"/',
    ),
)


def _bad_urls() -> Iterator[Hostile]:
    """Seeds that cannot, or must not, be asked for."""
    for url in _URLS:
        yield Hostile(f"the seed {url[:50]!r}", _json(CRAWL, url=url), "bad_url")


_EXPRESSIONS = (
    *("(", ")", "[", "[a", "[z-a]", "*", "+a", "?", "a**", "a{2,1}", "(?P<a", "(?P<1>a)", "(?z)"),
    *("\\", "(?<=a+)b", "(?P=none)", "\\1", "(a)\\2", "(?P<a>b)(?P<a>c)", "a{99999999999}", "(?#"),
    *("a" * 1001, "(" * 500),
)


def _bad_expressions() -> Iterator[Hostile]:
    """Expressions that do not compile, or are too many, too long or too expensive."""
    for field in ("allow_regex", "deny_regex"):
        for expression in _EXPRESSIONS:
            raw = _json(CRAWL, **{field: [expression]})
            yield Hostile(f"{field} {expression[:30]!r}", raw, "bad_regex")
        expensive = [
            "(?i)" + "[\x01-\ufffe]" * 190,
            "[\x01-\ufffe]" * 190,
            "[a\u3042\u4e00\uffff]" * 160,
        ]
        for number, expression in enumerate(expensive):
            lists = [f"{expression}{each}" for each in range(20)]
            raw = _json(CRAWL, **{field: lists})
            yield Hostile(f"{field} that is dear to compile, {number}", raw, "bad_regex")
        many = [str(number) for number in range(101)]
        yield Hostile(f"{field} 101 times", _json(CRAWL, **{field: many}), "bad_regex")


_PAIRS = (
    *(
        {"": "a"},
        {"a b": "c"},
        {"a:": "b"},
        {"a\r\nb": "c"},
        {"a\0": "b"},
        {"é": "a"},
        {"a" * 201: "b"},
    ),
    *({"a": "b\r\nc: d"}, {"a": "b\nc"}, {"a": "b\0"}, {"a": "b\x7f"}, {"a": "b" * 8193}),
    *({"(": "a"}, {"a/b": "c"}, {"@": "a"}, {f"a{number}": "b" for number in range(101)}),
)
_RESERVED = (
    *("Host", "content-length", "Transfer-Encoding", "connection", "Upgrade", "TE", "Trailer"),
    *("Proxy-Authorization", "proxy-connection", "Expect", "Keep-Alive", "HTTP2-Settings"),
)


def _bad_pairs() -> Iterator[Hostile]:
    """Headers and cookies that would break the request that carries them."""
    for field in ("headers", "cookies"):
        for pairs in _PAIRS:
            raw = _json(CRAWL, **{field: pairs})
            yield Hostile(f"{field} {str(pairs)[:40]}", raw, "bad_header")
    for name in _RESERVED:
        yield Hostile(f"the header {name}", _json(CRAWL, headers={name: "a"}), "bad_header")
    yield Hostile("a cookie of two", _json(CRAWL, cookies={"a": "b; c=d"}), "bad_header")
