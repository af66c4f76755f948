"""Laws of clients that scrape: each page is the site's, each id ends, crawls keep their share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from crawlstream_chaos.facts.facts import REPLIES, RESULTS, Facts
from crawlstream_chaos.facts.scrapes import SCRAPED, ScrapeAnswer, SeenScrapes


def pages_are_of_the_site(facts: Facts) -> Iterator[str]:
    """The site was asked for each page that is answered, before; its result is in its place."""
    if (scrapes := facts.scrapes) is None:
        return
    asked: dict[tuple[str, str], float] = {}
    for visit in sorted(facts.visits, key=lambda visit: visit.mono):
        asked.setdefault((visit.host, visit.path), visit.mono)
    results = {
        (r.value["id"], r.value["url"], r.value["status_code"])
        for r in scrapes.records
        if r.topic == RESULTS
    }
    for answer in scrapes.answers:
        if answer.state == "done":
            yield from _of_page(answer, asked, results)


def _of_page(
    answer: ScrapeAnswer, asked: Mapping[tuple[str, str], float], results: set[tuple[Any, ...]]
) -> Iterator[str]:
    page = answer.page
    address, _, path = page["url"].partition("://")[2].partition("/")
    if asked.get((address.partition(":")[0], f"/{path}"), float("inf")) > answer.at:
        yield f"{answer.id}: answered with {page['url']} before the site was asked for it"
    if (page["id"], page["url"], page["status_code"]) not in results:
        yield f"{answer.id}: answered with {page['url']}, of which there is no such result"


def each_ends(facts: Facts) -> Iterator[str]:
    """Each id that a client got was fed, and each that was fed has a reply: a page, or a reason."""
    if (scrapes := facts.scrapes) is None:
        return
    replied = {r.value["uuid"] for r in scrapes.records if r.topic == REPLIES}
    for name in sorted({answer.id for answer in scrapes.answers} - scrapes.fed.keys()):
        yield f"{name}: a client has this id, and nothing was fed"
    for name in sorted(scrapes.fed.keys() - replied):
        yield f"{name}: no reply about {scrapes.fed[name]}"


def any_process_answers(facts: Facts) -> Iterator[str]:
    """Each process answers each id, with the same page as all others, also those before."""
    if (scrapes := facts.scrapes) is None:
        return
    asked = {(answer.id, answer.process) for answer in scrapes.final}
    wanted = {(name, process) for name in scrapes.fed for process in scrapes.processes}
    for name, process in sorted(wanted - asked):
        yield f"{name}: process {process} was not asked"
    for answer in scrapes.final:
        if answer.status != 200:
            yield f"{answer.id}: process {answer.process} answers {answer.told}"
    told: defaultdict[str, set[str]] = defaultdict(set)
    for answer in (*scrapes.answers, *scrapes.final):
        told[answer.id] |= {answer.told} - {"HTTP 202"}
    for name, different in sorted(told.items()):
        if len(different) > 1:
            yield f"{name}: answered {' and '.join(sorted(different))}"


def crawls_keep_their_share(facts: Facts) -> Iterator[str]:
    """While pages of a crawl wait for a site, scrapes have no more than their share of its rule.

    Crawlers that do not use up a rule take less of it for the crawl. A fault may stop the crawl,
    and let those scrapes start at its end that were admitted meanwhile: as many as may be in
    progress.
    """
    if (scrapes := facts.scrapes) is None:
        return
    faults = sum(scrapes.since <= strike.at < scrapes.until for strike in facts.strikes)
    spare = scrapes.room * (1 + faults)
    for host, (scraped, crawled, seconds) in sorted(_requests(facts, scrapes).items()):
        rates = [rule.hits / rule.window_s for rule in facts.rules if rule.host == host]
        most = scrapes.share * max(scraped + crawled, min(rates, default=0) * seconds) + spare
        if scraped > most:
            yield f"{host}: {scraped} requests of scrapes, {crawled} of crawls: {most:g} may be"


def _requests(facts: Facts, scrapes: SeenScrapes) -> Mapping[str, tuple[int, int, float]]:
    """Count the requests of scrapes and of crawls at each host while a crawl waits for it.

    That is until the last page of a crawl, in the seconds that are returned, too; a host of which
    the crawl has had no page has always been waited for.
    """
    times: defaultdict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for visit in facts.visits:
        if scrapes.since <= visit.mono < scrapes.until and not visit.path.endswith("robots.txt"):
            is_crawl = not visit.path.startswith(SCRAPED)
            times[visit.host][is_crawl].append(visit.mono)
    found = {}
    for host, (scraped, crawled) in times.items():
        until = max(crawled, default=scrapes.until)
        seconds = (until - scrapes.since) / 1000
        found[host] = sum(at <= until for at in scraped), len(crawled), seconds
    return found


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "scraped pages are of the site": pages_are_of_the_site,
    "each scrape ends": each_ends,
    "any process answers a scrape": any_process_answers,
    "crawls keep their share": crawls_keep_their_share,
}
