"""Was a crawl of a web right? Its results and the site's access log, held against the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from crawlstream_cli.demo.access_log import LoggedRequest, busiest_windows, count_fetches
from crawlstream_cli.demo.truth import Truth
from crawlstream_cli.demo.web import Web


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Results of a crawl, and its requests as the site saw them."""

    web: Web
    truth: Truth
    delivered: Mapping[str, int]
    """URL of each result -> its HTTP status."""
    visits: Sequence[LoggedRequest]
    hits: Mapping[str, int]
    """Host -> requests that any second may hold."""

    @property
    def missing(self) -> frozenset[str]:
        """Pages that must have come and have not."""
        return frozenset(self.truth.delivered.keys() - self.delivered.keys())

    @property
    def busiest(self) -> Mapping[str, int]:
        """Host -> requests in its busiest second."""
        return busiest_windows(self.visits, 1.0)

    def problems(self) -> Iterator[str]:
        """Everything that is not as it must be, a sentence each; nothing if all is right."""
        yield from self._wrong_results()
        yield from self._wrong_fetches()
        for host, count in self.busiest.items():
            if count > self.hits[host]:
                yield f"{count} requests in one second at {host}, where {self.hits[host]} may be"

    def _wrong_results(self) -> Iterator[str]:
        for url in sorted(self.missing):
            yield f"not delivered: {url}"
        for url, status in sorted(self.delivered.items()):
            expected = self.truth.delivered.get(url)
            if expected is None:
                yield f"delivered against the rules of the crawl: {url}"
            elif expected != status:
                yield f"delivered with status {status} instead of {expected}: {url}"

    def _wrong_fetches(self) -> Iterator[str]:
        fetches = count_fetches(self.visits, self.web.port, self.web.scheme)
        for url in sorted(fetches.keys() | self.truth.fetches.keys()):
            expected = self.truth.fetches.get(url, 0)
            if fetches[url] != expected:
                yield f"fetched {fetches[url]} times instead of {expected}: {url}"
