"""Result of a crawl: the final messages, and the exit code for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from crawlstream.called import COMMAND
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.words.quantities import by_reason, duration, size
from crawlstream_cli.common.console import print_line
from crawlstream_cli.common.follow import CrawlProgress
from crawlstream_cli.common.words import counted, of_families

REMEDIES = {
    "address_refused": (
        "private and loopback addresses are not fetched: start the cluster with"
        " CRAWLSTREAM_ALLOW_NETWORKS to allow some"
    ),
    "certificate": "the site's TLS certificate is not valid for it",
    "connection_lost": "the site closed the connection: try again later",
    "dns": "the crawler's machine knows no address of this host: check its spelling",
    "domain_unreachable": "the site did not answer for a quarter of an hour: try again later",
    "refused": "nothing listens at this host and port: check both",
    "robots": "the site's robots.txt forbids it",
    "robots_unreachable": "the site's robots.txt could not be fetched, so nothing else may be",
    "timeout": "no complete answer came within DOWNLOAD_TIMEOUT: is the site up?",
    "tls": "no TLS connection was possible: is it http:// rather than https://?",
    "unreachable": "there is no route to it from the crawler's machine",
}
"""Advice about a page that failed for a reason, where a person can do something."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A crawl that the command does not follow any more."""

    crawl: CrawlKey
    progress: CrawlProgress
    seconds: float
    output: Path | None = None

    @property
    def ending(self) -> str:
        """The event that ended it; ``crawl_refused`` where all its seeds were."""
        return str(self.progress.ending["event"]) if self.progress.ending else "crawl_refused"

    @property
    def by(self) -> str:
        """The budget that has ended it; empty for any other end."""
        return str(self.progress.ending.get("by", "")) if self.progress.ending else ""

    @property
    def filtered(self) -> dict[str, int]:
        """Links that were not followed, by reason."""
        return dict(self.progress.ending["counters"]["filtered"]) if self.progress.ending else {}

    @property
    def skipped(self) -> dict[str, int]:
        """Pages that were never requested, by reason."""
        counters = self.progress.ending["counters"] if self.progress.ending else {}
        return dict(counters.get("skipped_by_reason", {}))

    @property
    def refused_families(self) -> list[dict[str, Any]]:
        """Families of URLs that the waste guard has refused, as the ending names them."""
        counters = self.progress.ending["counters"] if self.progress.ending else {}
        return list(counters.get("refused_families", ()))

    @property
    def dropped(self) -> dict[str, int]:
        """Pages whose bodies were not kept, by what they say."""
        counters = self.progress.ending["counters"] if self.progress.ending else {}
        return dict(counters.get("dropped", {}))


def exit_code(progress: CrawlProgress) -> int:
    """0: it came to its own end with every seed taken and a page fetched; else 1."""
    return 0 if progress.finished and progress.has_fetched else 1


def print_json(summary: Summary) -> None:
    """Print one line for programs."""
    progress = summary.progress
    told = {
        "crawlid": summary.crawl.crawlid,
        "ending": summary.ending,
        **({"by": summary.by} if summary.by else {}),
        "pages": progress.results,
        **({"requisites": progress.requisites} if progress.requisites else {}),
        "bytes": progress.body_bytes,
        "seconds": round(summary.seconds, 3),
        "failed": dict(progress.failed),
        "skipped": summary.skipped,
        "filtered": summary.filtered,
        **({"refused_families": families} if (families := summary.refused_families) else {}),
        "dropped": summary.dropped,
        "silent": progress.silent,
        "refused": progress.refused,
    }
    print_line(orjson.dumps(told).decode())


def print_result(summary: Summary, console: Console) -> None:
    """Print the failures with their reasons, and the result of the crawl in the last line."""
    for sentence, style in _sentences(summary):
        console.print(sentence, style=style, markup=False, highlight=False, soft_wrap=True)


def _sentences(summary: Summary) -> Iterator[tuple[str, str]]:
    progress = summary.progress
    for why in progress.refused.values():
        yield f"Rejected: {why}", "red"
    for reason, count in progress.failed.most_common():
        yield f"Failed ({reason}): {count}{_why(progress, reason)}", "yellow"
    if progress.silent:
        said = f"Done without a result record: {progress.silent}. The spider yielded no result"
        yield f"{said} for them.", "yellow"
    if not progress.has_fetched and not progress.refused:
        yield from ((sentence, "red") for sentence in _nothing_fetched(progress))
    yield _last_line(summary), ""
    if families := summary.refused_families:
        site = families[0]["site"]
        why = f"{COMMAND} frontier inspect {site}"
        yield f"Refused by the waste guard: {of_families(families)} ({why})", ""
    if progress.failed:
        yield f"What failed: {COMMAND} failures {summary.crawl.crawlid}", ""


def _why(progress: CrawlProgress, reason: str) -> str:
    """Return what is known of the pages that failed for a reason, and the URL of one of them."""
    known = progress.details.get(reason, "")
    if not progress.has_fetched:
        return f": {known}" if known else ""
    url = next((url for url, why in progress.first_failed.items() if why == reason), "")
    parts = [known or REMEDIES.get(reason, ""), f"as {url}" if url else ""]
    sentence = ", ".join(filter(None, parts))
    return f": {sentence}" if sentence else ""


def _nothing_fetched(progress: CrawlProgress) -> Iterator[str]:
    yield "No page was fetched."
    for url, reason in progress.first_failed.items():
        remedy = f": {REMEDIES[reason]}" if reason in REMEDIES else ""
        yield f"  {url}  {reason}{remedy}"


def _last_line(summary: Summary) -> str:
    progress, ending = summary.progress, summary.ending.removeprefix("crawl_")
    if ending == "finished" and not progress.has_fetched:
        ending = "finished, but fetched nothing"
    elif summary.by:
        ending += f" by {summary.by}"
    parts = [counted(progress.results, "page") + _statuses(progress)]
    if progress.requisites:
        parts.append(counted(progress.requisites, "requisite"))
    if failed := progress.failed.total():
        parts.append(f"{failed:,} failed ({by_reason(progress.failed)})")
    if summary.skipped:
        skipped = sum(summary.skipped.values())
        parts.append(f"{skipped:,} skipped ({by_reason(summary.skipped)})")
    if summary.filtered:
        filtered = sum(summary.filtered.values())
        parts.append(f"{filtered:,} filtered ({by_reason(summary.filtered)})")
    if summary.dropped:
        parts.append(f"without a body: {by_reason(summary.dropped)}")
    parts += [size(progress.body_bytes), duration(summary.seconds)]
    is_file = summary.output is not None and str(summary.output) != "-"
    where = f" -> {summary.output}" if is_file else ""
    return f"Crawl {summary.crawl.crawlid} {ending}: {', '.join(parts)}{where}"


def _statuses(progress: CrawlProgress) -> str:
    """Return how many pages came with each status, unless all are successes."""
    if all(200 <= status < 300 for status in progress.statuses):
        return ""
    counts = (f"{count:,} x {status}" for status, count in progress.statuses.most_common())
    return f" ({', '.join(counts)})"
