"""Laws that hold at the end of every story, with any features."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from crawlstream_chaos.facts.facts import ENDS, Facts, HostRule
from crawlstream_chaos.laws.auditor import endings_are_told_once, politeness, repeats_are_bounded
from crawlstream_cli.demo.access_log import LoggedRequest as LoggedVisit
from interplay.rows import as_rows, differences
from interplay.story import RESULTS, Story
from interplay.truth import Expected

MARK = "x-story-secret"
"""The header by which a crawl's credentials are known at a site."""


def _runs(story: Story) -> Sequence[int]:
    return [ending.value["run"] for ending in story.ended()]


def _came(story: Story, run: int) -> Counter[str]:
    """Return how often each page of a run was delivered; repetitions have the same id."""
    pages = {r.value["id"]: r.value["url"] for r in story.records(RESULTS) if r.value["run"] == run}
    return Counter(pages.values())


def _failed(story: Story, run: int) -> Counter[tuple[str, str]]:
    events = {
        r.key: (r.value["url"], r.value["reason"])
        for r in story.records("events")
        if r.value["event"] == "page_failed" and r.value["run"] == run
    }
    return Counter(events.values())


def every_page_comes(story: Story) -> Iterator[str]:
    """Each feeding brings each page that it must, once, and nothing else."""
    for number, (run, expected) in enumerate(zip(_runs(story), story.expected(), strict=True)):
        came, failed = _came(story, run), _failed(story, run)
        is_cut = number == 0 and story.endings != "crawl_finished"
        wanted = expected.failed
        yield from (f"run {run}: too much: {url}" for url in came - expected.pages)
        yield from (f"run {run}: failed ({why}): {url}" for url, why in failed - wanted)
        if is_cut or story.spends_domains:
            continue
        if story.most is None and story.most_per_host is None:
            yield from (f"run {run}: never delivered: {url}" for url in expected.pages - came)
            yield from (f"run {run}: never failed ({why}): {url}" for url, why in wanted - failed)
        else:
            yield from _limited(story, run, expected, came.total() + failed.total())


def _limited(story: Story, run: int, expected: Expected, count: int) -> Iterator[str]:
    wanted = expected.admitted
    if story.most_per_host is not None:
        failed = (url for url, _ in expected.failed.elements())
        hosts = Counter(url.split("/")[2] for url in (*expected.pages.elements(), *failed))
        wanted = sum(min(times, story.most_per_host) for times in hosts.values())
    if story.most is not None:
        wanted = min(wanted, story.most)
    if count != wanted:
        yield f"run {run}: {count} pages ended where the limits allow {wanted}"


def ledger_is_exact(story: Story) -> Iterator[str]:
    """The counters of each ending add up, and agree with the topics."""
    for number, ending in enumerate(story.ended()):
        counters, run = ending.value["counters"], ending.value["run"]
        if counters["admitted"] != sum(counters[end] for end in ENDS):
            yield f"run {run}: {counters} do not add up"
        came, failed = _came(story, run).total(), _failed(story, run).total()
        if (counters["done"], counters["failed"]) != (came, failed):
            yield f"run {run}: {counters}, but {came} pages and {failed} failures came"
        is_whole = number or story.endings == "crawl_finished"
        is_limited = story.most is not None or story.most_per_host is not None
        if is_whole and not is_limited and not story.spends_domains:
            wanted = story.expected()[number].redirected
            redirected = counters["redirected"] - counters["done_by_status"].get("promoted", 0)
            if redirected != wanted:
                yield f"run {run}: {redirected} redirected instead of {wanted}"


def one_ending_a_run(story: Story) -> Iterator[str]:
    """Each feeding is one run, which ends once and as it must."""
    told = [ending.value["event"] for ending in story.ended()]
    wanted = [story.endings, *["crawl_finished"] * (story.rounds - 1)]
    if told != wanted:
        yield f"ended by {told} instead of {wanted}"
    events = defaultdict(set)
    for record in story.records("events"):
        if record.value["event"] in {"crawl_finished", "crawl_stopped", "crawl_expired"}:
            events[record.value["run"]].add(record.key)
    yield from (f"run {run} ended {len(keys)} times" for run, keys in events.items() if keys - {
        *list(keys)[:1]})  # fmt: skip


def credentials_stay_at_home(story: Story) -> Iterator[str]:
    """A crawl's own headers reach its own site only, and there every page."""
    is_secret = MARK in {name.lower() for name in story.request.get("headers", ())}
    for visit in story.visits:
        has, is_home = MARK in visit.headers, visit.host == story.host
        if has and not is_home:
            yield f"{visit.host}{visit.path} received the credentials of {story.host}"
        if is_secret and is_home and not has and visit.path != "/robots.txt":
            yield f"{visit.path} was requested without its credentials"


def nothing_is_rejected(story: Story) -> Iterator[str]:
    """All requests take effect; pages that must fail may be there to be replayed."""
    letters = {each for expected in story.expected() for each in expected.failed}
    for record in story.all_records("rejected"):
        if (record.value.get("url"), record.value["reason"]) not in letters:
            yield str(record.value)[:300]


def each_page_is_one_row(story: Story) -> Iterator[str]:
    """The pipeline has stored every page that was delivered, as it was delivered at first."""
    yield from differences(story.rows(), as_rows(story.all_records(RESULTS)))


def the_auditor_agrees(story: Story) -> Iterator[str]:
    """Windows by the site's own log, repetitions and endings, as the auditor of chaos sees them."""
    hosts = (story.host, story.guest, story.images)
    rules = [HostRule(host=host, hits=100_000, window_s=1) for host in hosts]
    facts = Facts(
        fed=(),
        records=story.ground.witness.of(story.appid),
        visits=[
            LoggedVisit(v.at * 1000, v.at * 1000, v.host, v.method, v.path, 0, "")
            for v in story.visits
        ],
        rules=[*rules, *story.rules],
        strikes=story.ground.strikes,
    )
    for law in (politeness, repeats_are_bounded, endings_are_told_once):
        yield from law(facts)


def robots_are_obeyed(story: Story) -> Iterator[str]:
    """Requests no page that robots.txt disallows."""
    for visit in story.visits:
        leaf = story.web.get(story.url(visit.path, visit.host))
        if leaf and leaf.fails == "robots":
            yield f"{visit.path} was requested"


Law = Callable[[Story], Iterator[str]]
LAWS: Sequence[Law] = (
    every_page_comes, ledger_is_exact, one_ending_a_run, credentials_stay_at_home,
    nothing_is_rejected, each_page_is_one_row, the_auditor_agrees, robots_are_obeyed,
)  # fmt: skip


def broken_laws(story: Story) -> Mapping[str, Sequence[str]]:
    """Return what is wrong with a story that was played, by law and by feature."""
    found = {law.__name__.replace("_", " "): list(law(story)) for law in LAWS}
    found |= {feature.name: list(feature.expect(story)) for feature in story.features}
    return {name: wrong for name, wrong in found.items() if wrong}
