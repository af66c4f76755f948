"""The table of verbs, which needs nothing but Python.

``app`` makes the commands of it. A checkout in which nothing has been installed yet shows it as it
stands: ``python -m crawlstream_cli.verbs``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby

from crawlstream import __version__

PURPOSE = "A Kafka-fed crawl cluster that loses no page and never exceeds a site's rate limit."


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb is (``module:name``), its line in the help, and whom it talks to."""

    target: str
    summary: str
    panel: str
    """The heading under which the help lists it."""
    joins_cluster: bool = True
    """True if it uses the cluster that runs in the home directory; false if it manages it."""
    passes_options: bool = False
    """True if unknown options are passed on to another program."""

    def is_installed(self) -> bool:
        """Return whether its package is here; chaos comes with a checkout only."""
        return find_spec(self.target.partition(".")[0]) is not None


_START, _CRAWL, _LOOK = "Start and stop", "Crawl", "See what happens"
_KEEP, _WORK = "Rules and maintenance", "Work on crawlstream"

VERBS = {
    "demo": Verb(
        "crawlstream_cli.machine.demo:demo",
        "Crawl a bundled site with a cluster of its own, and check the result.",
        _START,
        joins_cluster=False,
    ),
    "up": Verb(
        "crawlstream_cli.machine.up:up",
        "Start a cluster on this machine.",
        _START,
        joins_cluster=False,
    ),
    "down": Verb("crawlstream_cli.machine.down:down", "Stop the cluster on this machine.", _START),
    "status": Verb(
        "crawlstream_cli.machine.status:status",
        "Show the cluster's processes and counters.",
        _START,
    ),
    "logs": Verb(
        "crawlstream_cli.machine.logs:logs", "Show the logs of the cluster's processes.", _START
    ),
    "crawl": Verb(
        "crawlstream_cli.crawl.command:crawl",
        "Crawl from URLs, write the results and wait for the end.",
        _CRAWL,
    ),
    "get": Verb("crawlstream_cli.get.command:get", "Fetch one page and print it.", _CRAWL),
    "map": Verb("crawlstream_cli.map_site:map_site", "List the URLs of a site.", _CRAWL),
    "mcp": Verb(
        "crawlstream_cli.agents.command:mcp",
        "Serve tools to language models, on standard input and output.",
        _CRAWL,
    ),
    "feed": Verb("crawlstream_cli.feed:feed", "Send requests, from a file or one by one.", _CRAWL),
    "stop": Verb("crawlstream_cli.steer:stop", "Stop a crawl and drop its queued pages.", _CRAWL),
    "pause": Verb("crawlstream_cli.steer:pause", "Pause a crawl.", _CRAWL),
    "resume": Verb("crawlstream_cli.steer:resume", "Resume a paused crawl.", _CRAWL),
    "reprioritize": Verb(
        "crawlstream_cli.steer:reprioritize", "Change a crawl's priority.", _CRAWL
    ),
    "crawls": Verb("crawlstream_cli.crawls:crawls", "List current and recent crawls.", _LOOK),
    "info": Verb(
        "crawlstream_cli.info:info", "Show the progress of one crawl, or all crawls.", _LOOK
    ),
    "frontier": Verb(
        "crawlstream_cli.inspect:frontier",
        "Find out where a page is, or why a domain waits.",
        _LOOK,
    ),
    "rejected": Verb(
        "crawlstream_cli.rejected:rejected",
        "Show requests that were refused, and send them again.",
        _LOOK,
    ),
    "dump": Verb("crawlstream_cli.dump:dump", "Show the records of a Kafka topic.", _LOOK),
    "runs": Verb(
        "crawlstream_cli.runs:runs", "List the runs of a crawl that was fed several times.", _LOOK
    ),
    "compare": Verb(
        "crawlstream_cli.runs:compare", "Compare two runs: new, gone and changed pages.", _LOOK
    ),
    "failures": Verb(
        "crawlstream_cli.failures:failures", "Show the pages that failed, by reason.", _LOOK
    ),
    "pipeline": Verb(
        "crawlstream_cli.pipeline:pipeline",
        "Deliver results to files, databases, tables, indexes and topics.",
        _LOOK,
    ),
    "archive": Verb(
        "crawlstream_cli.pipeline:archive", "List and check the WARC files of pipelines.", _LOOK
    ),
    "pages": Verb(
        "crawlstream_cli.pages:pages",
        "Show the pages of a memory: what is known, and what is due.",
        _LOOK,
    ),
    "query": Verb(
        "crawlstream_cli.pipeline:query", "Query the files of pipelines with SQL, by DuckDB.", _LOOK
    ),
    "stats": Verb("crawlstream_cli.stats:stats", "Count requests and responses over time.", _LOOK),
    "schedule": Verb(
        "crawlstream_cli.schedule:schedule",
        "Crawl again at set times: show and change schedules.",
        _KEEP,
    ),
    "throttle": Verb(
        "crawlstream_cli.rules.throttle:throttle",
        "Show and change the rate limits of sites.",
        _KEEP,
    ),
    "proxies": Verb(
        "crawlstream_cli.proxies.command:proxies", "Show, change and check pools of proxies.", _KEEP
    ),
    "signing": Verb(
        "crawlstream_cli.signing.command:signing",
        "Make and publish the keys of signed requests.",
        _KEEP,
    ),
    "purse": Verb(
        "crawlstream_cli.purses.command:purse",
        "Show and change the purses that pay for pages.",
        _KEEP,
    ),
    "cost": Verb("crawlstream_cli.cost:cost", "Estimate the cost of a million pages.", _KEEP),
    "adopt": Verb(
        "crawlstream_cli.adopt:adopt",
        "Let the frontier in Redis belong to the cluster of these settings.",
        _KEEP,
    ),
    "recover": Verb(
        "crawlstream_cli.recover:recover",
        "Estimate the cost of losing Redis; resume a Kafka partition that lost records.",
        _KEEP,
    ),
    "repartition": Verb(
        "crawlstream_cli.repartition.command:repartition",
        "Move the frontier into another number of partitions.",
        _KEEP,
        joins_cluster=False,
    ),
    "migrate": Verb(
        "crawlstream_cli.migrate.command:migrate",
        "Show what to change in a Scrapy Cluster project.",
        _KEEP,
        joins_cluster=False,
    ),
    "install": Verb(
        "crawlstream_cli.machine.install:install",
        "Install packages of optional features: Parquet, S3, PostgreSQL, tables, texts, MCP.",
        _KEEP,
        joins_cluster=False,
    ),
    "test": Verb(
        "crawlstream_cli.dev.tests:run_tests",
        "Run the tests; they start their own servers.",
        _WORK,
        joins_cluster=False,
        passes_options=True,
    ),
    "check": Verb(
        "crawlstream_cli.dev.checks:run_checks",
        "Run the static checks.",
        _WORK,
        joins_cluster=False,
    ),
    "chaos": Verb(
        "crawlstream_chaos.command:chaos",
        "Inject faults into a test cluster and audit the result.",
        _WORK,
        joins_cluster=False,
    ),
    "bench": Verb(
        "crawlstream_cli.dev.bench:bench", "Run a benchmark.", _WORK, joins_cluster=False
    ),
}


def main(arguments: Sequence[str]) -> None:
    """Print the version, or the verbs under their headings."""
    # As for `head`, which ends before it has read all.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print(__version__ if "--version" in arguments else "\n".join(_help()))


def _help() -> Iterator[str]:
    yield f"Usage: crawlstream VERB [OPTIONS]\n\n{PURPOSE}"
    verbs = ((name, verb) for name, verb in VERBS.items() if verb.is_installed())
    for panel, listed in groupby(verbs, key=lambda each: each[1].panel):
        yield f"\n{panel}"
        yield from (f"  {name:13} {verb.summary}" for name, verb in listed)
    yield "\n`crawlstream VERB --help` explains a verb."


if __name__ == "__main__":
    main(sys.argv[1:])
