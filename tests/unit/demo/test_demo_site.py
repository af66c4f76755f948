"""The bundled site: one right outcome for every crawl, and a log that can be trusted."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from w3lib.url import canonicalize_url

from crawlstream.errors import SetupError
from crawlstream_cli.demo.access_log import (
    AccessLog,
    LoggedRequest,
    busiest_windows,
    count_fetches,
    read_visits,
)
from crawlstream_cli.demo.http_reply import HttpReply, render
from crawlstream_cli.demo.site import Site
from crawlstream_cli.demo.truth import FollowRules, expected_pages
from crawlstream_cli.demo.verdict import Verdict
from crawlstream_cli.demo.web import ContentKind, Web
from crawlstream_cli.local.ports import free_block
from support.crawler.tls import make_certificate


class Reader:
    """Reads the rendered bytes as a client would, with Scrapy's link extractor."""

    def __init__(self, web: Web, rules: FollowRules) -> None:
        self.web = web
        self.rules = rules
        self._extractor = LinkExtractor(
            allow=rules.allow_regex or (),
            deny=rules.deny_regex or (),
            allow_domains=[f"{host}:{web.port}" for host in rules.allowed_domains or ()],
            deny_extensions=rules.deny_extensions,
        )
        self._pages: dict[str, tuple[str, list[str]]] = {}

    def read(self, url: str) -> tuple[str, list[str]]:
        """Where a page redirects to (or nothing), and the links on it; each page is read once."""
        if url not in self._pages:
            self._pages[url] = self._read(url)
        return self._pages[url]

    def follows(self, url: str) -> bool:
        """Return whether the rules allow a link to a URL."""
        return self._extractor.matches(url)

    def _read(self, url: str) -> tuple[str, list[str]]:
        page = self.web.find(urlsplit(url).hostname or "", url[len(self.web.origin("127.0.0.1")) :])
        assert page is not None, f"{url} is linked but does not exist"
        reply = render(self.web, page)
        if "html" not in _header(reply, "Content-Type"):
            return "", []
        response = HtmlResponse(url, body=reply.body, encoding=_charset(reply))
        found = [link.url for link in self._extractor.extract_links(response)]
        return _header(reply, "Location"), [u for u in found if not u.startswith("ftp:")]


def crawl_in_any_order(reader: Reader, order: random.Random) -> dict[str, int]:
    """Crawl from the front page, next page at random: URL of each result -> depth."""
    web = reader.web
    seen, waiting, delivered = {web.seed_url}, [(web.seed_url, 0)], {}
    forbidden = {web.url(page) for page in web.pages if not web.may_fetch(page)}

    def admit(url: str, depth: int) -> None:
        if (found := canonicalize_url(url)) not in seen:
            seen.add(found)
            waiting.append((url.partition("#")[0], depth))

    while waiting:
        url, depth = waiting.pop(order.randrange(len(waiting)))
        if url in forbidden:
            continue
        location, links = reader.read(url)
        if location and reader.follows(location):
            admit(location, depth)
            continue
        delivered[url] = depth
        for link in links if depth < reader.rules.maxdepth else ():
            admit(link, depth + 1)
    return delivered


def _header(reply: HttpReply, name: str) -> str:
    lines = dict(line.split(": ", 1) for line in reply.head.decode().splitlines()[1:-1])
    return lines.get(name, "")


def _charset(reply: HttpReply) -> str:
    return _header(reply, "Content-Type").rpartition("charset=")[2]


@pytest.mark.parametrize(
    "rules",
    [
        FollowRules(),
        FollowRules(maxdepth=2),
        FollowRules(maxdepth=3),
        FollowRules(maxdepth=9),
        FollowRules(maxdepth=3, deny_regex=("lantern|tower|pier",)),
        FollowRules(maxdepth=3, allow_regex=(r"-\d*[02468]$", r":\d+/$")),
        FollowRules(maxdepth=3, deny_extensions=("zip",)),
        FollowRules(maxdepth=9, allowed_domains=("127.0.0.1", "127.0.0.2", "127.0.0.5")),
    ],
    ids=str,
)
def test_every_order_of_fetching_reaches_the_truth(rules: FollowRules) -> None:
    """Delivers the pages of the truth at their depth, in whatever order hosts answer."""
    web = Web(8000, pages=200)
    assert any(page.kind is ContentKind.MALFORMED and page.children for page in web.pages)
    truth, reader = expected_pages(web, rules), Reader(web, rules)
    for seed in range(8):
        assert crawl_in_any_order(reader, random.Random(seed)) == truth.depths


def test_same_arguments_make_the_same_web() -> None:
    """Two webs of the same arguments agree byte for byte; another seed makes another web."""

    def bodies(web: Web) -> list[bytes]:
        return [render(web, page).body for page in web.pages]

    assert bodies(Web(8000)) == bodies(Web(8000))
    assert bodies(Web(8000)) != bodies(Web(8000, seed=2))


def test_default_web_has_one_of_everything_within_reach() -> None:
    """A crawl of depth 3 meets each kind of page, several hosts, and leaves something deeper."""
    web = Web(8000)
    truth = expected_pages(web, FollowRules(maxdepth=3))
    reached = {page.kind for page in web.pages if web.url(page) in truth.fetches}
    assert reached | {ContentKind.FORBIDDEN} == set(ContentKind) - {ContentKind.FILE}
    assert truth.forbidden
    assert len({urlsplit(url).hostname for url in truth.delivered}) == 8
    assert len(truth.delivered) > 100
    assert len(expected_pages(web, FollowRules(maxdepth=9)).delivered) > len(truth.delivered)


@pytest.mark.parametrize(("hosts", "pages"), [(1, 1), (2, 2), (1, 60), (3, 7), (40, 3000)])
def test_webs_of_any_size_are_whole(hosts: int, pages: int) -> None:
    """A web has exactly the pages asked for, at addresses of their own, all linked from within."""
    web = Web(8000, hosts=hosts, pages=pages, slow_pages=min(5, pages))
    assert len({web.url(page) for page in web.pages}) == pages
    linked = {child for page in web.pages for child in page.children}
    assert linked == set(range(1, pages))


def test_the_busiest_window_is_found_wherever_it_begins() -> None:
    """Windows slide: three visits within a second count, a fourth at its very end does not."""
    times = [0, 900, 1100, 1879, 2100, 5000]
    visits = [LoggedRequest(time, time, "127.0.0.1", "GET", "/", 200, "") for time in times]
    assert busiest_windows(visits, 1.0) == {"127.0.0.1": 3}


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """The default web, served, with its log in ``tmp_path / "visits.jsonl"``."""
    served = Site(Web(free_block(1), slow_s=0.05), AccessLog(tmp_path / "visits.jsonl"))
    await served.start()
    yield served
    await served.stop()


async def ask(
    site: Site, host: str, *paths: str, method: str = "GET", tls: ssl.SSLContext | None = None
) -> list[tuple[int, bytes]]:
    """Send all requests over one connection in one piece; return the replies in order."""
    reader, writer = await asyncio.open_connection(host, site.web.port, ssl=tls)
    for path in paths:
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHOST: {host}:1\r\nuser-agent: é\r\n\r\n".encode()
        )
    replies = []
    for _ in paths:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = int(head.partition("Content-Length: ")[2].partition("\r\n")[0])
        body = await reader.readexactly(0 if method == "HEAD" else length)
        replies.append((int(head.split()[1]), body))
    writer.close()
    return replies


async def test_served_bytes_are_the_rendered_ones(site: Site) -> None:
    """Each page answers on its own host as the model says; a flaky one only from the second on."""
    web = site.web
    for host in web.hosts:
        pages = [page for page in web.pages if page.host == host]
        twice = [page.path for page in pages for _ in range(2)]
        replies = await ask(site, host, *twice)
        for page, first, second in zip(pages, replies[::2], replies[1::2], strict=True):
            expected = render(web, page)
            assert second == (expected.status, expected.body)
            assert first[0] == (500 if page.kind is ContentKind.FLAKY else expected.status)


async def test_every_robots_txt_redirects(tmp_path: Path) -> None:
    """A host leads to its own rules; one without rules to another host, which allows all."""
    web = Web(8000, moves_robots=1)
    site = Site(web, AccessLog(tmp_path / "log"))
    own, without = web.hosts[0], web.hosts[3]
    for host, leads_to in ((own, own), (without, web.hosts[4])):
        moved = site.answer(host, "/robots.txt")
        assert f"Location: {web.robots_target(host)}\r\n".encode() in moved.head
        path = web.robots_target(host).removeprefix(web.origin(leads_to))
        rules = site.answer(leads_to, path)
        assert rules.status == 200
        assert (b"Disallow: /private/" in rules.body) == (host == own)
    site.log.close()


async def test_the_log_names_every_visit_once(site: Site, tmp_path: Path) -> None:
    """Requests are in the log: host, path, status, agent and time, unknown paths included."""
    host = site.web.hosts[2]
    await ask(site, host, "/", "/robots.txt", '/no"such', "/")
    await ask(site, host, "/", method="HEAD")
    site.log.flush()
    visits = read_visits(tmp_path / "visits.jsonl")
    assert [(v.host, v.method, v.path, v.status) for v in visits] == [
        (host, "GET", "/", 200),
        (host, "GET", "/robots.txt", 200),
        (host, "GET", '/no"such', 404),
        (host, "GET", "/", 200),
        (host, "HEAD", "/", 200),
    ]
    assert sorted(v.mono for v in visits) == [v.mono for v in visits]
    assert count_fetches(visits, site.web.port)[f"{site.web.origin(host)}/"] == 3


async def test_a_site_with_a_certificate_speaks_tls(tmp_path: Path) -> None:
    """Its URLs are https, and its log has the time at which each request arrived."""
    web = Web(free_block(1), hosts=1, pages=40, first_host="127.0.0.1", scheme="https")
    site = Site(web, AccessLog(tmp_path / "visits.jsonl"), make_certificate(tmp_path))
    await site.start()
    tls = ssl.create_default_context(cafile=str(tmp_path / "site.pem"))
    begun = time.monotonic() * 1000
    replies = await ask(site, "127.0.0.1", *(page.path for page in web.pages), tls=tls)
    ended = time.monotonic() * 1000
    await site.stop()
    assert replies[0][0] == 200
    visits = read_visits(tmp_path / "visits.jsonl")
    assert all(begun <= visit.mono <= ended for visit in visits)
    asked = count_fetches(visits, web.port, web.scheme)
    assert asked == Counter(web.url(page) for page in web.pages)
    assert all(url.startswith("https://127.0.0.1:") for url in asked)


async def test_a_slow_page_holds_back_nobody_else(site: Site) -> None:
    """While a slow page is awaited on one connection, others are served; its own wait."""
    slow = next(page for page in site.web.pages if page.kind is ContentKind.SLOW)
    waiting = asyncio.create_task(ask(site, slow.host, slow.path, "/"))
    assert (await ask(site, slow.host, "/"))[0][0] == 200
    assert not waiting.done()
    assert [status for status, _ in await waiting] == [200, 200]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
    ],
)
async def test_bad_requests_are_refused(site: Site, sent: bytes, status: int) -> None:
    """Anything but a modest HTTP request gets its status and a closed connection."""
    reader, writer = await asyncio.open_connection(site.web.hosts[0], site.web.port)
    writer.write(sent)
    answer = await reader.read()
    assert answer.split(b" ")[1] == str(status).encode()
    writer.close()


async def test_echo_shows_what_was_sent(site: Site) -> None:
    """/echo answers with the request's own head, a body being read past."""
    reader, writer = await asyncio.open_connection(site.web.hosts[0], site.web.port)
    writer.write(b"POST /echo HTTP/1.0\r\nCookie: a=b\r\nContent-Length: 3\r\n\r\nabc")
    answer = (await reader.read()).decode()
    assert "Cookie: a=b" in answer.partition("\r\n\r\n")[2]
    writer.close()


async def test_a_taken_port_is_one_sentence(site: Site, tmp_path: Path) -> None:
    """A second site on the same port does not start, and says which address is taken."""
    second = Site(site.web, AccessLog(tmp_path / "second.jsonl"))
    with pytest.raises(SetupError, match=rf"cannot listen on 127\.0\.0\.1:{site.web.port}"):
        await second.start()


def test_fetches_count_the_repeats_of_flaky_pages() -> None:
    """The truth expects two fetches of a page that fails at first, one of every other."""
    web = Web(8000)
    truth = expected_pages(web, FollowRules(maxdepth=9))
    flaky = {web.url(page) for page in web.pages if page.kind is ContentKind.FLAKY}
    assert flaky
    assert Counter(truth.fetches) == Counter({url: 1 + (url in flaky) for url in truth.fetches})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("lose", "not delivered"),
        ("invent", "delivered against the rules"),
        ("status", "delivered with status 418 instead of 200"),
        ("refetch", "fetched 2 times instead of 1"),
        ("hurry", "requests in one second at 127.0.0.1, where 20 may be"),
    ],
)
def test_the_verdict_finds_what_is_wrong(change: str, sentence: str) -> None:
    """A right crawl has no problems; a page lost, invented or fetched twice, or haste, is named."""
    web = Web(8000, pages=20)
    truth = expected_pages(web, FollowRules(maxdepth=9))
    urls = [url for url, count in truth.fetches.items() for _ in range(count)]
    visits = [visit_of(url, second) for second, url in enumerate(urls)]
    delivered = dict(truth.delivered)
    right = Verdict(
        web=web, truth=truth, delivered=delivered, visits=visits, hits=dict.fromkeys(web.hosts, 20)
    )
    assert list(right.problems()) == []
    if change == "lose":
        del delivered[web.seed_url]
    elif change == "invent":
        delivered["http://127.0.0.1:8000/none"] = 200
    elif change == "status":
        delivered[web.seed_url] = 418
    elif change == "refetch":
        visits.append(visit_of(web.seed_url, 1000))
    else:
        visits += [
            visit_of(web.origin("127.0.0.1") + "/robots.txt", 2000 + n / 30) for n in range(30)
        ]
    (problem,) = right.problems()
    assert sentence in problem


def visit_of(url: str, second: float) -> LoggedRequest:
    """A visit of a URL at a time."""
    parts = urlsplit(url)
    path = url[len(f"http://{parts.netloc}") :]
    return LoggedRequest(second * 1000, second * 1000, parts.hostname or "", "GET", path, 200, "")


async def test_a_web_whose_links_scripts_make_has_none_on_its_pages(tmp_path: Path) -> None:
    """They answer the first further request; the log distinguishes it from visits of pages."""
    plain, scripted = Web(1, hosts=2, pages=40), Web(1, hosts=2, pages=40, further=3)
    log = AccessLog(tmp_path / "visits.jsonl")
    site = Site(scripted, log)
    page = scripted.pages[0]
    assert b"href" not in site.answer(page.host, page.path).body
    links = site.answer(page.host, f"/further/0{page.path}").body.decode()
    shown = render(plain, plain.pages[0]).body.decode()
    assert links.count("<a ") == shown.count("<a ") > 2
    assert b"<a " not in site.answer(page.host, f"/further/1{page.path}").body
    assert site.answer(page.host, "/further/0/nowhere").status == 404
    log.close()
    asked = LoggedRequest(0, 0, page.host, "GET", "/further/2/pier/find?page=11", 200, "")
    assert asked.document == "/pier/find?page=11"
    assert LoggedRequest(0, 0, page.host, "GET", "/pier/further/2", 200, "").document is None
