"""The client of the fetch lane, against servers that follow a script."""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pycurl
import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from crawling.client import clock
from crawling.client.http_client import HttpClient
from crawling.client.libcurl import PLAIN
from crawling.client.transfer import Transfer
from crawling.lease.expired import GrantExpired
from crawling.page.page import Page, Phase
from crawling.page.scrapy_request import PAGE
from crawling.tls.multi import libcurl_of
from crawlstream_chaos.hostile_pages import Case, endless
from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, SeenRequest, page, serving
from support.crawler.tls import TlsSite, make_certificate
from support.crawler.visitor import Visitor, visiting

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """An empty web."""
    with serving({}) as site:
        yield site


@pytest.fixture(params=[PLAIN, libcurl_of("chrome")], ids=["plain", "chrome"])
async def visitor(request: pytest.FixtureRequest) -> AsyncIterator[Visitor]:
    """A client that waits two seconds, by each build of libcurl."""
    with visiting(timeout_s=2.0, libcurl=request.param) as visitor:
        yield visitor


RAW: dict[bytes, int | str] = {
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi": 200,
    b"HTTP/1.0 404\r\n\r\nno": 404,
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi": 200,
    b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n": 204,
    b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 201 OK\r\nContent-Length: 0\r\n\r\n": 201,
    CHUNKED + b"2\r\nhi\r\n0\r\nHTTP/1.1 500: x\r\n\r\n": 200,
    b"": "connection_lost",
    b"HTTP/1.1 200 OK\r\n": "connection_lost",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n": "connection_lost",
    b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi": "connection_lost",
    CHUNKED + b"5\r\nhello\r\n": "connection_lost",
    CHUNKED + b"zz\r\n": "connection_lost",
    b"HTTP/1.1 101 Other\r\nUpgrade: h2c\r\n\r\n": "connection_lost",
    b"HTTP/1.1 99999 No\r\nContent-Length: 0\r\n\r\n": 99999,  # Told from a status later.
    b"HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n": "bad_response",
    b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n": "bad_response",
    b"ICY 200 OK\r\nContent-Length: 0\r\n\r\n": "bad_response",
    b"\x00\x01\x02 no http\r\n\r\n": "bad_response",
    b"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 0\r\n\r\n": "bad_response",
    b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi": "bad_response",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhi": "bad_response",
}


@pytest.mark.parametrize("size", [1, 2, 3000, 5000])
async def test_a_body_in_chunks_takes_no_more_memory_than_is_counted(
    visitor: Visitor, site: CrawlerSite, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Joins the chunks of a body, however small, in order; memory is what is counted."""
    held: list[tuple[int, int]] = []
    answer = HttpClient._answer

    def weighed(client: Any, transfer: Transfer, *rest: Any, **named: Any) -> Response:
        held.append((transfer.size, sum(map(sys.getsizeof, transfer.body))))
        return answer(client, transfer, *rest, **named)

    monkeypatch.setattr(HttpClient, "_answer", weighed)
    body = random.Random(size).randbytes(10_000 * min(size, 20))
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    site.pages["/"] = Answer(raw=CHUNKED + chunks + b"0\r\n\r\n")
    assert (await visitor.fetch(site.url("/"))).body == body
    [(counted, taken)] = held
    assert counted == len(body)
    assert taken < 1.2 * counted + 1024


@pytest.mark.parametrize("raw", RAW)
async def test_an_answer_ends_in_its_status_or_by_name(
    visitor: Visitor, site: CrawlerSite, raw: bytes
) -> None:
    """Answers that are not HTTP/1 differ from a broken connection; half a head does not count."""
    site.pages["/"] = Answer(raw=raw)
    assert await visitor.outcome(site.url("/")) == RAW[raw]


async def test_a_response_is_what_scrapys_own_client_makes_of_it(
    visitor: Visitor, site: CrawlerSite
) -> None:
    """Class, headers without those of the connection, each as often as it came, the address."""
    head = (
        b"content-TYPE: text/html\r\nSet-Cookie: a\r\nset-cookie: b \r\nKeep-Alive: 5\r\nETag:\r\n"
    )
    site.pages["/?q=1"] = Answer(raw=OK + head + b"Content-Length: 2\r\n\r\nhi, and more")
    response = await visitor.fetch(site.url("/?q=1#fragment"))
    assert isinstance(response, HtmlResponse)
    assert response.url == site.url("/?q=1")
    assert response.body == b"hi"
    assert set(response.headers) == {b"Content-Length", b"Content-Type", b"Set-Cookie", b"Etag"}
    assert response.headers.getlist("Set-Cookie") == [b"a", b"b"]
    assert response.ip_address == ip_address("127.0.0.1")
    assert response.protocol == "HTTP/1.1"


async def test_a_request_is_written_as_it_is_and_nothing_is_added(
    visitor: Visitor, site: CrawlerSite
) -> None:
    """Dots, escapes and an empty query stay; libcurl has no headers of its own."""
    paths = ("/a/../b/./c", "/%7e%2F", "/?x=%7C%7B", "/p;a=b?c=1")
    site.pages |= dict.fromkeys(paths, page())
    for path in paths:
        assert await visitor.outcome(site.url(path)) == 200, path
    assert await visitor.outcome(site.url("").rstrip("/")) == 404
    assert site.paths() == [*paths, "/"]
    assert {frozenset(visit.headers) for visit in site.visits} == {frozenset({"host"})}
    posted: dict[str, Any] = {
        "method": "POST",
        "body": b"x" * 2_000_000,
        "headers": {"X-Empty": ""},
    }
    site.pages["/post"] = page()
    assert await visitor.outcome(site.url("/post"), **posted) == 200
    assert site.visits[-1].method == "POST"
    assert site.visits[-1].headers.keys() == {"host", "content-length", "x-empty"}
    for method in ("HEAD", "PUT", "DELETE"):
        assert await visitor.outcome(site.url("/post"), method=method) == 200
        assert site.visits[-1].method == method


async def test_a_request_on_a_dead_connection_is_not_sent_twice(
    visitor: Visitor, site: CrawlerSite
) -> None:
    """Does not repeat a request on a dead connection, as libcurl would: it is one attempt."""
    site.pages |= {"/": Answer(b"x", after_s=0.1), "/dropped": Answer(raw=b"")}
    for kept in (1, 2):
        outcomes = [visitor.outcome(site.url("/")) for _ in range(kept)]
        assert await asyncio.gather(*outcomes) == [200] * kept
        assert await visitor.outcome(site.url("/dropped")) == "connection_lost"
    await asyncio.sleep(0.2)
    assert site.paths() == ["/", "/dropped", "/", "/", "/dropped"]


async def test_a_grant_is_spent_once_the_connection_stands(
    visitor: Visitor, site: CrawlerSite
) -> None:
    """Spends a grant when the connection is open, not if it fails; sends nothing when too old."""
    site.pages["/"] = page()
    lost = visitor.page("http://127.0.0.1:9/")
    with pytest.raises(Exception, match=r"[Cc]onnect"):
        await visitor.client.fetch(_request(lost), lost)
    assert lost.phase is Phase.CONNECTING
    stale = visitor.page(site.url("/"))
    asked = asyncio.ensure_future(visitor.client.fetch(_request(stale), stale))
    await asyncio.sleep(0)
    visitor.leases.lose(0, [stale.token])
    with pytest.raises(GrantExpired):
        await asked
    assert site.visits == []


def _request(page: Page) -> Request:
    return Request(page.lease.entry.url, meta={PAGE: page})


@pytest.mark.parametrize("name", [*endless(), "/endless/trailers"])
async def test_nothing_goes_on_for_ever(visitor: Visitor, site: CrawlerSite, name: str) -> None:
    """Body, head, informational answers, a chunk's extension, trailers: broken off long before."""
    trailers = [CHUNKED + b"0\r\n"], itertools.repeat(b"X: y\r\n" * 999)
    cases = {
        **endless(),
        "/endless/trailers": Case(
            lambda _visit: Answer(stream=itertools.chain(*trailers)), "connection_lost"
        ),
    }
    site.pages[name] = cases[name].page
    began = time.process_time()
    assert await visitor.outcome(site.url(name)) == cases[name].ends
    assert time.process_time() - began < 1


async def test_a_head_is_no_longer_than_browsers_do_with(
    visitor: Visitor, site: CrawlerSite
) -> None:
    """Limits the head of a response as browsers do, and all heads together."""
    line, early = b"X: %b\r\n" % (b"y" * 4091), b"HTTP/1.1 103 Early\r\n"
    for lines, end in ((60, 200), (66, "connection_lost")):
        rest = OK + line * 6 + b"Content-Length: 0\r\n\r\n"
        site.pages["/"] = Answer(raw=early + line * (lines - 6) + b"\r\n" + rest)
        assert await visitor.outcome(site.url("/")) == end, lines


async def test_a_body_that_drips_ends_with_its_own_time_whatever_it_is(site: CrawlerSite) -> None:
    """Byte by byte, in a body, a head, or a chunk's extension."""
    chunked = OK + b"Transfer-Encoding: chunked\r\n\r\n1;"
    for start in (OK + b"\r\n", OK + b"X: ", chunked):
        site.pages["/"] = lambda _visit, start=start: Answer(stream=_dripping(start))  # type: ignore[misc]
        with visiting(timeout_s=0.5) as visitor:
            assert await visitor.outcome(site.url("/")) == "timeout"


def _dripping(start: bytes) -> Iterator[bytes]:
    yield start
    for _ in range(60):
        time.sleep(0.05)
        yield b"x"


async def test_a_large_body_waits_for_older_ones_and_its_time_with_it(site: CrawlerSite) -> None:
    """Its connection is not read meanwhile, and it comes whole once there is room."""
    body = b"word " * 100_000
    site.pages["/"] = lambda _visit: Answer(stream=_in_pieces(body))
    with visiting(timeout_s=1.0) as visitor:
        budget, elders = visitor.budget, [visitor.page(f"http://a.example/{n}") for n in range(2)]
        for elder in elders:
            budget.weigh(elder, 16 << 20)
        coming = asyncio.ensure_future(visitor.fetch(site.url("/")))
        await asyncio.sleep(1.5)
        assert not coming.done(), "its own time stands still"
        assert budget.total < (32 << 20) + len(body)
        for elder in elders:
            budget.drop(elder)
        assert (await coming).body == body


def _in_pieces(body: bytes) -> Iterator[bytes]:
    yield OK + b"Content-Length: %d\r\n\r\n" % len(body)
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]


async def test_a_body_that_waits_too_long_is_given_up(
    site: CrawlerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gives up a body that waits too long, because a worker may hold a page for a limited time."""
    monkeypatch.setattr(clock, "LONGEST_PAUSE_S", 0.3)
    site.pages["/"] = Answer(b"word " * 100_000)
    with visiting(timeout_s=5.0) as visitor:
        for number in range(2):
            visitor.budget.weigh(visitor.page(f"http://a.example/{number}"), 16 << 20)
        began = time.monotonic()
        assert await visitor.outcome(site.url("/")) == "timeout"
        assert time.monotonic() - began < 3


async def test_libcurl_connects_to_no_address_but_those_that_were_vetted(
    visitor: Visitor, site: CrawlerSite
) -> None:
    """Connects only to vetted addresses, whatever host the URL has, in any spelling."""
    site.pages["/"] = page()
    visitor.resolver.known = lambda *_: [ip_address("::1")]  # type: ignore[method-assign]
    for host in (
        "127.0.0.1",
        "localhost",
        "127.1",
        "0x7f000001",
        "2130706433",
        "[::ffff:127.0.0.1]",
    ):
        url = f"http://{host}:{site.port}/"
        # A name leads to the vetted address, where nothing listens.
        assert await visitor.outcome(url) in {"address_refused", "refused", "dns"}, host
    assert site.visits == []


async def test_what_was_vetted_last_is_connected_to(visitor: Visitor, site: CrawlerSite) -> None:
    """A host that moves is found at its new address; libcurl keeps none against the resolver."""
    site.pages["/"] = Answer(headers={**HTML, "Connection": "close"})
    for number in (1, 2, 3):
        address = ip_address(f"127.0.0.{number}")
        visitor.resolver.known = lambda *_, found=address: [found]  # type: ignore[method-assign]
        assert (await visitor.fetch(f"http://shop.example:{site.port}/")).ip_address == address


async def test_the_next_address_is_tried_where_nobody_listens(
    visitor: Visitor, site: CrawlerSite
) -> None:
    """Tries the next address after a refusal, and spends the grant on the one that answers."""
    site.pages["/"] = page()
    both = [ip_address("::1"), ip_address("127.0.0.1")]
    visitor.resolver.known = lambda *_: both  # type: ignore[method-assign]
    assert await visitor.outcome(f"http://shop.example:{site.port}/") == 200


async def test_an_ipv6_address_is_crawled(visitor: Visitor) -> None:
    """Written in brackets."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK + b"Content-Length: 0\r\n\r\n")
        writer.close()

    asked: list[bytes] = []
    async with await asyncio.start_server(answer, "::1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        response = await visitor.fetch(f"http://[::1]:{port}/a")
        assert response.ip_address == ip_address("::1")
    assert asked[0].startswith(b"GET /a HTTP/1.1\r\nHost: [::1]:%d\r\n" % port)


async def test_neither_the_environment_nor_files_of_the_user_change_a_request(
    site: CrawlerSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No proxy, no password, no configuration."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CURL_HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("default login me password secret\n")
    (tmp_path / ".curlrc").write_text('header = "X-Mine: 1"\n')
    site.pages["/"] = page()
    with visiting() as visitor:
        assert await visitor.outcome(site.url("/")) == 200
    assert site.visits[0].headers.keys() == {"host"}


async def test_nothing_is_remembered_of_a_site_but_its_connections(
    site: CrawlerSite, tmp_path: Path
) -> None:
    """No redirect is followed, no cookie sent back, and none made to greet in TLS who asked to."""
    lasting = {"Strict-Transport-Security": "max-age=99999999", "Set-Cookie": "a=1; Path=/"}
    front = {"/": Answer(headers={**HTML, **lasting})}
    site.pages |= {**front, "/moved": Answer(status=302, headers={"Location": "/there"})}
    with serving(front, kind=TlsSite) as secret, visiting() as visitor:
        assert isinstance(secret, TlsSite)
        secret.certify(make_certificate(tmp_path))
        visitor.resolver.known = lambda *_: [ip_address("127.0.0.1")]  # type: ignore[method-assign]
        assert await visitor.outcome(secret.url("/", host="shop.example")) == 200
        for path, status in (("/", 200), ("/", 200), ("/moved", 302)):
            assert await visitor.outcome(site.url(path, host="shop.example")) == status
    assert site.paths() == ["/", "/", "/moved"]
    assert {frozenset(visit.headers) for visit in site.visits} == {frozenset({"host"})}


async def test_a_connection_that_proved_nothing_is_not_used_for_secrets(tmp_path: Path) -> None:
    """Uses no unverified connection for secrets, and no handle that once skipped the check."""
    with serving({"/": page()}, kind=TlsSite) as secret, visiting() as visitor:
        assert isinstance(secret, TlsSite)
        secret.certify(make_certificate(tmp_path))
        assert await visitor.outcome(secret.url("/")) == 200
        with_secret = {"headers": {"Authorization": "Bearer 1"}}
        assert await visitor.outcome(secret.url("/"), **with_secret) == "certificate"
        assert await visitor.outcome(secret.url("/")) == 200
    assert [visit.headers.get("authorization") for visit in secret.visits] == [None, None]


async def test_a_response_that_nobody_has_paid_for_is_an_error(
    visitor: Visitor, site: CrawlerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should a libcurl write a request without asking, it is found at once."""
    monkeypatch.setattr(Transfer, "on_request", lambda *_: pycurl.PREREQFUNC_OK)
    site.pages["/"] = page()
    with pytest.raises(RuntimeError, match="without asking"):
        await visitor.fetch(site.url("/"))


async def test_what_leaves_and_what_comes_back_is_told(visitor: Visitor, site: CrawlerSite) -> None:
    """That a request has left is not kept until its response is there; nor what a refusal says."""
    arrived, may_answer = threading.Event(), threading.Event()

    def answer(_visit: SeenRequest) -> Answer:
        arrived.set()
        may_answer.wait(20)
        return Answer(status=503)

    site.pages["/"] = answer
    coming = asyncio.ensure_future(visitor.fetch(site.url("/")))
    await asyncio.to_thread(arrived.wait, 20)
    await asyncio.sleep(0.05)
    (left,) = visitor.leases.of(0).take_report().sent
    may_answer.set()
    await coming
    (back,) = visitor.leases.of(0).take_report().sent
    assert (left.received, back.received) == (False, True)
    assert back.heard is not None


async def test_a_download_that_fails_keeps_no_room_of_others(
    visitor: Visitor, site: CrawlerSite
) -> None:
    """Its body counts no longer than it is there."""
    site.pages["/"] = endless()["/endless/body"].page
    assert await visitor.outcome(site.url("/")) == "too_large"
    assert visitor.budget.total == 0


async def test_a_body_that_breaks_off_is_a_page_where_a_request_says_so(
    visitor: Visitor, site: CrawlerSite
) -> None:
    """Scrapy's ``download_fail_on_dataloss``; and its ``download_maxsize``."""
    site.pages["/"] = Answer(raw=OK + b"Content-Length: 9\r\n\r\nshort")
    response = await visitor.fetch(site.url("/"), meta={"download_fail_on_dataloss": False})
    assert (response.body, response.flags) == (b"short", ["dataloss"])
    site.pages["/large"] = Answer(b"x" * 2000)
    small = {"meta": {"download_maxsize": 1000}}
    assert await visitor.outcome(site.url("/large"), **small) == "too_large"


async def test_pages_of_a_host_share_a_connection_and_handles_are_few(
    visitor: Visitor, site: CrawlerSite
) -> None:
    """Kept for the next request, unless libcurl would have sent the last one again."""
    site.pages |= {"/": page(), "/cut": Answer(raw=b"")}
    for _ in range(5):
        assert await visitor.outcome(site.url("/")) == 200
        assert await visitor.outcome(site.url("/cut")) == "connection_lost"
    assert await visitor.outcome(site.url("/")) == 200
    assert len(visitor.client._direct._spare) == 1
