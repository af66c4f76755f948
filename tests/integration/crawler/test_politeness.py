"""Rates that a site asks for and gets: crawler processes judged by the site's own log."""

from __future__ import annotations

import itertools
import signal
import time
from collections import Counter
from dataclasses import replace
from email.utils import formatdate
from ipaddress import ip_network

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.throttle_groups import AddressLimits, Group, Groups
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, SeenRequest, page
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.inspector import Inspector
from support.crawler.cluster import WIDE_OPEN, CrawlerCluster, counted
from support.crawler.ways import both_ways
from support.waiting import WaitUntil
from support.windows import check_windows

pytest_plugins = ["support.crawler.fixtures"]

STAMP_S = 0.001
"""The site's stamps may be so much off."""
RESTS_S = 7
"""Pause that a site asks for: longer than a robots.txt of another site may take."""


def arrivals(site: CrawlerSite, host: str) -> list[float]:
    """Seconds between consecutive arrivals at a host."""
    times = sorted(visit.at for visit in site.visits if visit.host == host)
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def retry_after(kind: str, seconds: int) -> dict[str, str]:
    """The header in one of its forms; a date by the site's clock, which is an hour fast."""
    if kind == "seconds":
        return {"Retry-After": str(seconds)}
    now = time.time()
    if kind == "date":
        # A date has whole seconds: one more, so that it is never less than meant.
        return {"Retry-After": formatdate(now + seconds + 1, usegmt=True)}
    fast = now + 3600
    return {
        "Date": formatdate(fast, usegmt=True),
        "Retry-After": formatdate(fast + seconds, usegmt=True),
    }


@both_ways
async def test_a_machine_of_many_names_gets_no_more_than_its_network_may(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Forty hosts in one network, two workers: the log of all of them together is the referee."""
    limit = replace(WIDE_OPEN, hits=12, window_s=1, concurrency=6)
    net = Group(rule=limit, networks=(ip_network("127.0.0.0/24"),))
    per_address = replace(WIDE_OPEN, hits=2, window_s=1)
    await cluster.set_rules(
        WIDE_OPEN, {}, groups=Groups({"net": net}, AddressLimits(rule=per_address))
    )
    hosts, paths = [f"127.0.0.{n}" for n in range(1, 41)], ["/0", "/1"]
    apart = ["127.0.1.1", "127.0.1.2"]
    site.pages |= dict.fromkeys([*paths, "/2", "/3"], page())
    urls = [site.url(path, host=host) for path in paths for host in hosts]
    urls += [site.url(f"/{n}", host=host) for n in range(4) for host in apart]
    with cluster.worker(), cluster.worker():
        state = await cluster.end_of(await cluster.feed(*urls), timeout_s=60)
    assert state.done == len(urls)
    assert set(counted(cluster.results()).values()) == {1}
    times: dict[str, list[int]] = {visit.host: [] for visit in site.visits}
    for visit in site.visits:
        times[visit.host].append(int(1000 * (visit.at + STAMP_S)))
    check_windows([at for host in hosts for at in times[host]], replace(limit, window_s=0.998))
    for host in apart:
        check_windows(times[host], replace(per_address, window_s=0.998))


async def test_a_robots_txt_of_another_site_counts_on_its_machine(
    cluster: CrawlerCluster, site: CrawlerSite, redis: Redis, wait_until: WaitUntil
) -> None:
    """Waits for the limit of its network, which is used up, though no page there is known."""
    unknown, redirecting = "127.0.0.1", "127.0.1.1"
    to = {"Location": site.url("/robots.txt", host=unknown)}
    site.pages |= {f"{redirecting}/robots.txt": Answer(status=302, headers=to), "/": page()}

    async def limit_to(hits: int) -> None:
        rule = replace(WIDE_OPEN, hits=hits, window_s=3_600)
        net = Group(rule=rule, networks=(ip_network("127.0.0.0/24"),))
        await cluster.set_rules(WIDE_OPEN, {}, groups=Groups({"net": net}))

    def visited() -> list[str]:
        return [visit.path for visit in site.visits if visit.host == unknown]

    async def is_looked_up() -> bool:
        gate = await redis.hget(f"{FrontierKeys().tag}located", unknown)
        return gate == b"=net" or bool(visited())

    await limit_to(2)
    with cluster.worker(ROBOTSTXT_OBEY="true"):
        crawl = await cluster.feed(site.url("/", host=redirecting))
        await wait_until(is_looked_up, timeout_s=30)
        assert visited() == []
        await limit_to(3)
        state = await cluster.end_of(crawl, timeout_s=60)
    assert (state.done, visited()) == (1, ["/robots.txt"])


@both_ways
async def test_a_site_that_refuses_a_robots_txt_of_another_site_is_left_alone(
    cluster: CrawlerCluster, site: CrawlerSite, wait_until: WaitUntil
) -> None:
    """Its own pages wait for as long as its 429 or 503 asked, which is longer than a fetch."""
    refuses = {"127.0.0.1": 429, "127.0.0.2": 503}
    redirecting = {"127.0.1.1": "127.0.0.1", "127.0.1.2": "127.0.0.2"}
    for host, status in refuses.items():
        asked = Answer(status=status, headers=retry_after("seconds", RESTS_S))
        site.pages |= {f"{host}/rules.txt": asked, f"{host}/robots.txt": Answer(status=404)}
    for host, target in redirecting.items():
        to = {"Location": site.url("/rules.txt", host=target)}
        site.pages[f"{host}/robots.txt"] = Answer(status=302, headers=to)
    site.pages["/"] = page()
    with cluster.worker(ROBOTSTXT_OBEY="true"):
        await cluster.feed(*(site.url("/", host=host) for host in redirecting), crawlid="first")
        await wait_until(lambda: set(refuses) <= {visit.host for visit in site.visits})
        crawl = await cluster.feed(*(site.url("/", host=host) for host in refuses))
        state = await cluster.end_of(crawl, timeout_s=60)
    assert state.done == 2
    for host in refuses:
        assert arrivals(site, host)[0] >= RESTS_S - STAMP_S


async def test_nobody_comes_before_a_site_wants_it(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Pauses a domain after a 429 or 503 as it asked, or for 1 s, then 2 s, for both workers."""
    kinds = {"127.0.0.1": "seconds", "127.0.0.2": "date", "127.0.0.3": "date of a fast clock"}
    mute, refusals = "127.0.0.4", 2
    visits: Counter[str] = Counter()

    def answer(visit: SeenRequest) -> Answer:
        visits[visit.host] += 1
        if visit.host == mute:
            return Answer(status=503) if visits[mute] <= refusals else page()
        if visits[visit.host] > 1:
            return page()
        return Answer(status=429, headers=retry_after(kinds[visit.host], 2))

    paths = [f"/{n}" for n in range(6)]
    site.pages |= dict.fromkeys(paths, answer)
    # With one request at a time, none is in flight elsewhere when the answer comes.
    await cluster.set_rules(replace(WIDE_OPEN, concurrency=1), {})
    with cluster.worker(), cluster.worker():
        crawl = await cluster.feed(
            *(site.url(path, host=host) for path in paths for host in (*kinds, mute))
        )
        state = await cluster.end_of(crawl, timeout_s=90)
    assert state.done == 24
    assert set(counted(cluster.results()).values()) == {1}
    for host in kinds:
        assert arrivals(site, host)[0] >= 2 - STAMP_S
    first, second, *_ = arrivals(site, mute)
    assert first >= 1 - STAMP_S
    assert second >= 2 - STAMP_S


@both_ways
async def test_a_site_that_keeps_silent_is_tried_by_one_request_of_the_cluster(
    cluster: CrawlerCluster, site: CrawlerSite, redis: Redis, wait_until: WaitUntil
) -> None:
    """Tries a silent site by single, ever rarer requests of the cluster, until it answers."""
    is_dead = True
    under_way: list[int] = [0]
    most_at_once: list[int] = []

    def cut(_: SeenRequest) -> Answer:
        if not is_dead:
            return page()
        under_way[0] += 1
        most_at_once.append(under_way[0])
        time.sleep(0.1)
        under_way[0] -= 1
        return Answer(raw=b"")

    site.pages |= {f"/{n}": cut for n in range(30)}
    inspector = Frontier(redis, FrontierKeys()).inspector
    with cluster.worker(RETRY_TIMES="20"), cluster.worker(RETRY_TIMES="20"):
        crawl = await cluster.feed(*(site.url(f"/{n}") for n in range(30)))

        async def strikes(more_than: int) -> int:
            report = await inspector.domain("127.0.0.1")
            # While nothing is in flight: requests before the first strike are over.
            return report.strikes if report.strikes > more_than and not report.under_way else 0

        first = await wait_until(lambda: strikes(0))
        before = len(most_at_once)
        await wait_until(lambda: strikes(first + 1))
        is_dead = False
        state = await cluster.end_of(crawl, timeout_s=90)
    trials = most_at_once[before:]
    assert len(trials) >= 2
    assert set(trials) == {1}, "more than one trial at a time"
    assert state.done == 30


async def test_robots_txt_is_paid_for_and_its_crawl_delay_is_kept(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """A host gets one fetch; no window over its hits; a requested pause is never shorter."""
    slow, slower, *others = hosts = [f"127.0.0.{n}" for n in range(1, 5)]
    site.pages |= {
        "/robots.txt": Answer(b""),
        f"{slow}/robots.txt": Answer(b"User-agent: *\nCrawl-delay: 0.5\n"),
        f"{slower}/robots.txt": Answer(b"User-agent: *\nRequest-rate: 5/3s 0100-0200\n"),
        **{f"/{n}": page() for n in range(5)},
    }
    await cluster.set_rules(ThrottleRule(hits=4, window_s=1), {})
    with cluster.worker(ROBOTSTXT_OBEY="true"), cluster.worker(ROBOTSTXT_OBEY="true"):
        crawl = await cluster.feed(
            *(site.url(f"/{n}", host=host) for n in range(5) for host in hosts)
        )
        state = await cluster.end_of(crawl, timeout_s=90)
    assert state.done == 20
    asked = Counter(visit.host for visit in site.visits if visit.path == "/robots.txt")
    assert asked == dict.fromkeys(hosts, 1)
    assert min(arrivals(site, slow)) >= 0.5 - STAMP_S
    assert min(arrivals(site, slower)) >= 0.6 - STAMP_S
    for host in others:
        times = sorted(visit.at for visit in site.visits if visit.host == host)
        assert len(times) == 6
        windows = zip(times, times[4:], strict=False)
        assert all(fifth - first >= 1 - STAMP_S for first, fifth in windows)


async def test_a_site_is_visited_in_its_hours_and_once_for_each_page_that_it_names(
    cluster: CrawlerCluster, site: CrawlerSite, redis: Redis, wait_until: WaitUntil
) -> None:
    """No page comes before they begin; links lose needless parameters, but seeds do not."""
    opens, closed, tidy = "127.0.0.1", "127.0.0.2", "127.0.0.3"
    begins_at = (int(time.time()) + 10) // 60 * 60 + 60

    def hours(begin_s: int) -> Answer:
        """Return a file with the hour from then on, in UTC."""
        ends = (time.strftime("%H%M", time.gmtime(at)) for at in (begin_s, begin_s + 3600))
        return Answer(f"User-agent: *\nVisit-time: {'-'.join(ends)}\n".encode())

    site.pages |= {
        f"{opens}/robots.txt": hours(begins_at),
        f"{closed}/robots.txt": hours(begins_at + 7200),
        f"{tidy}/robots.txt": Answer(b"Clean-param: sid&ref /p\n"),
        "/": page(),
        "/p": page(),
        f"{tidy}/": page(*(f"/p?sid={n}&a=1" for n in range(5)), "/p?ref=1", "/q?sid=1"),
        "/q?sid=1": page(),
        "/p?a=1": page(),
        "/p?sid=seed": page(),
    }
    wanted = {"CRAWLSTREAM_VISIT_TIME": "true", "CRAWLSTREAM_CLEAN_PARAM": "true"}
    inspector = Frontier(redis, FrontierKeys()).inspector
    with cluster.worker(ROBOTSTXT_OBEY="true", **wanted):
        seeds = site.url("/", host=tidy), site.url("/p?sid=seed", host=tidy)
        crawl = await cluster.feed(*seeds, maxdepth=1)
        waits = await cluster.feed(site.url("/", host=closed), crawlid="waits")
        later = await cluster.feed(site.url("/", host=opens), crawlid="later")
        await wait_until(lambda: _rests(inspector, closed))
        state = await cluster.end_of(crawl, timeout_s=60)
        assert (await cluster.end_of(later, timeout_s=90)).done == 1
        assert (await cluster.state_of(waits)).queued == 1
    assert [visit.path for visit in site.visits if visit.host == closed] == ["/robots.txt"]
    assert min(v.at for v in site.visits if v.host == opens and v.path == "/") >= begins_at - 0.1
    fetched = Counter(visit.path for visit in site.visits if visit.host == tidy)
    paths = ["/robots.txt", "/", "/p?sid=seed", "/p?a=1", "/p", "/q?sid=1"]
    assert fetched == dict.fromkeys(paths, 1)
    assert (state.done, state.redirected, state.failed) == (5, 6, 0)


async def _rests(inspector: Inspector, domain: str) -> bool:
    report = await inspector.domain(domain)
    return report.is_outside_hours and not report.strikes


async def test_a_first_page_follows_its_robots_txt_and_no_window_exceeds_its_hits(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """The two first requests of a host go together where the rule has room for both."""
    rule, hosts = ThrottleRule(hits=3, window_s=6), ["127.0.0.5", "127.0.0.6"]
    site.pages |= {"/robots.txt": Answer(b""), **{f"/{n}": page() for n in range(3)}}
    await cluster.set_rules(rule, {})
    with cluster.worker(ROBOTSTXT_OBEY="true"), cluster.worker(ROBOTSTXT_OBEY="true"):
        urls = (site.url(f"/{n}", host=host) for n in range(3) for host in hosts)
        state = await cluster.end_of(await cluster.feed(*urls), timeout_s=90)
    assert state.done == 6
    for host in hosts:
        first, second, third = arrivals(site, host)
        assert first < 1.5, "the first page waited for a turn of its own"
        assert second >= 4 - STAMP_S
        assert third >= 2 - STAMP_S
        assert first + second + third >= rule.window_s - STAMP_S


async def test_links_into_blocked_domains_wait_or_are_filtered_as_the_operator_wants(
    cluster: CrawlerCluster, site: CrawlerSite, wait_until: WaitUntil
) -> None:
    """They queue by default; without a backlog they are counted, and the crawl ends. Seeds wait."""
    blocked = [site.url(f"/{n}", host="127.0.0.2") for n in range(3)]
    site.pages |= {"/": page("/there", *blocked), "/there": page(*blocked)}
    await cluster.set_rules(WIDE_OPEN, {}, blacklist=frozenset({"127.0.0.2"}))
    with cluster.worker() as worker:
        kept = await cluster.feed(site.url("/"), crawlid="kept", maxdepth=2)

        async def all_wait() -> bool:
            state = await cluster.state_of(kept)
            return (state.done, state.queued) == (2, 3)

        await wait_until(all_wait)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    with cluster.worker(SCHEDULER_BACKLOG_BLACKLIST="false"):
        crawl = await cluster.feed(site.url("/"), crawlid="dropped", maxdepth=2)
        state = await cluster.end_of(crawl, timeout_s=90)
    assert state.filtered_by_reason["blacklist"] == 6
    assert state.admitted == 2
    assert "127.0.0.2" not in {visit.host for visit in site.visits}
