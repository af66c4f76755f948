"""``crawlstream demo``: the whole path once, on servers of its own, checked against the truth."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import orjson
import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from crawlstream.boot.printable import printable
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.boot.variables import environment_without_settings
from crawlstream.called import COMMAND
from crawlstream.errors import SetupError
from crawlstream.model.crawl import CrawlKey
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_cli.common.console import PrintableConsole, print_line
from crawlstream_cli.common.follow import CrawlProgress, Follower
from crawlstream_cli.crawl.interruption import ends_as_interrupt
from crawlstream_cli.crawl.request_options import seed
from crawlstream_cli.crawl.results import describe, open_results
from crawlstream_cli.demo.access_log import read_visits
from crawlstream_cli.demo.files import differences, stored_pages
from crawlstream_cli.demo.site import check_addresses
from crawlstream_cli.demo.truth import FollowRules, expected_pages
from crawlstream_cli.demo.verdict import Verdict
from crawlstream_cli.demo.web import Web
from crawlstream_cli.local.cluster import LocalCluster
from crawlstream_cli.local.home import default_home
from crawlstream_cli.local.partitions import MOST_LOCAL
from crawlstream_cli.local.ports import Ports, free_block
from crawlstream_cli.local.readiness import NotReady
from crawlstream_cli.local.supervisor import MARK
from crawlstream_cli.machine.up import showing
from crawlstream_cli.rules.throttle import show_table
from crawlstream_extract.workers.tether import die_with_parent

DEPTH = 3
WORKERS = 2
HITS, SLOW_HITS = 20, 5
"""Requests per second to each host, and to the slower one."""
_SAMPLES = 6
_SITE_START_S = 10.0
_FILES_WITHIN_S = 30.0
_PIPELINES = """\
[pipeline.demo]
sink = {{kind = "files", format = "jsonl", path = "{path}", max_age = "2s"}}
"""


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the cluster and the site running afterwards.")
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=2, max=MOST_LOCAL, help="Number of Redis servers that share the frontier."
        ),
    ] = None,
) -> None:
    """Crawl the bundled site, from Kafka to Kafka, and check every page.

    Starts a website on 127.0.0.x and a complete cluster in its own directory and on its own ports,
    sets rate limits through ZooKeeper, feeds one crawl request, and compares the results, and the
    files that a pipeline makes of them, with the pages and the access log of the site. Exit code 0
    only if every page was delivered, none was fetched twice, no rate limit was exceeded and every
    page is in the files once. Ctrl-C and SIGTERM stop everything.

    The last line is JSON: `pages` delivered, `failed` pages (0 on success),
    duration of the demo in seconds, paths of the results and of the pipeline's files.
    """
    try:
        with ends_as_interrupt():
            is_right = _Demo(keep=keep, partitions=partitions).run()
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(128 + interrupt.args[0]) from None
    raise typer.Exit(0 if is_right else 1)


class _Demo:
    """A demo: everything it starts is in ``<CRAWLSTREAM_HOME>/demo``."""

    def __init__(self, *, keep: bool, partitions: int | None) -> None:
        self._keep = keep
        self._partitions = partitions
        self._began = time.monotonic()
        self._console = PrintableConsole(highlight=False)
        self._home = default_home().path / "demo"
        self._results = self._home / "results" / "demo.jsonl"
        self._log = self._home / "logs" / "site-visits.jsonl"
        self._web = Web(free_block(1))
        self._truth = expected_pages(self._web, FollowRules(maxdepth=DEPTH))
        self._files = self._home / "results" / "files"
        self._delivered: dict[str, int] = {}
        self._ids: set[str] = set()
        self._samples: list[Mapping[str, Any]] = []
        environment = environment_without_settings(os.environ)
        environment |= {
            "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
            "CRAWLSTREAM_FINISH_GRACE": "1",
            "CRAWLSTREAM_PIPELINES": str(self._home / "pipelines.toml"),
        }
        self._cluster = LocalCluster(self._home, ports=Ports.free(), env=environment)

    def run(self) -> bool:
        """Start, crawl, judge, stop; whether all was right."""
        self._begin_anew()
        with self._cluster_up() as settings, self._site_up():
            self._set_rates(settings)
            finished = asyncio.run(self._crawl(settings))
            stored = self._await_files(finished)
            verdict = self._verdict()
            problems = [*([] if finished else ["the crawl did not finish"]), *verdict.problems()]
            problems += differences(self._ids, stored)
            self._tell(verdict, problems, stored.total())
            if self._keep:
                self._say_how_to_use_it()
        summary = {
            "pages": len(self._delivered),
            "failed": len(verdict.missing),
            "seconds": round(time.monotonic() - self._began, 1),
            "results": str(self._results),
            "files": str(self._files),
        }
        print_line(orjson.dumps(summary).decode())
        return not problems

    def _begin_anew(self) -> None:
        """Forget the demo before this one, unless it is still up."""
        check_addresses(self._web)
        if self._cluster.is_running:
            raise SetupError(
                f"a demo is still running: stop it with CRAWLSTREAM_HOME={self._home}"
                f" {COMMAND} down"
            )
        for folder in (self._home / "data", self._files):
            shutil.rmtree(folder, ignore_errors=True)
        self._log.unlink(missing_ok=True)
        self._home.mkdir(parents=True, exist_ok=True)
        (self._home / "pipelines.toml").write_text(_PIPELINES.format(path=self._files))
        # Away from a .env, whose settings are not the demo's.
        os.chdir(self._home)

    @contextmanager
    def _cluster_up(self) -> Iterator[Settings]:
        """All servers and processes, as long as the context lasts, or for good if kept."""
        self._console.print(
            f"[bold]1[/] Starting Redis, ZooKeeper, Kafka, the monitors and {WORKERS} crawlers"
            f" in {self._home}",
            soft_wrap=True,
        )
        with showing(self._console) as progress:
            try:
                self._cluster.start(
                    spiders={"link": WORKERS},
                    partitions=self._partitions,
                    tied=not self._keep,
                    progress=progress,
                )
            except NotReady:
                self._cluster.stop()
                raise
        try:
            yield load_settings(**self._cluster.environment())
        except BaseException:
            self._stop_cluster()
            raise
        if not self._keep:
            self._stop_cluster()

    def _stop_cluster(self) -> None:
        with self._console.status("stopping everything"):
            self._cluster.stop()

    @contextmanager
    def _site_up(self) -> Iterator[None]:
        """The website in a process of its own; it bears the cluster's mark and ends with it."""
        site = subprocess.Popen(
            [
                *(sys.executable, "-m", "crawlstream_cli.demo"),
                *("--port", str(self._web.port), "--log", str(self._log)),
            ],
            env={**self._cluster.environment(), MARK: str(self._home)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=None if self._keep else die_with_parent(signal.SIGKILL),  # noqa: PLW1509  no thread holds a lock
        )
        try:
            self._await_site(site)
            yield
        except BaseException:
            site.terminate()
            raise
        if not self._keep:
            site.terminate()
            site.wait()

    def _await_site(self, site: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _SITE_START_S
        last = (self._web.hosts[-1], self._web.port)
        while socket.socket().connect_ex(last):
            if site.poll() is not None or time.monotonic() > deadline:
                raise SetupError("the demo site did not start")
            time.sleep(0.02)

    def _set_rates(self, settings: Settings) -> None:
        """Through ZooKeeper, as any operator would."""
        editor = ThrottleEditor(
            settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
        )
        slow = self._web.hosts[-1]

        async def edit() -> Any:
            await editor.set_rule("default", hits=HITS, window=1)
            return await editor.set_rule(slow, hits=SLOW_HITS, window=1)

        self._console.print("[bold]2[/] Setting the rates through ZooKeeper")
        show_table(asyncio.run(edit()))

    async def _crawl(self, settings: Settings) -> bool:
        """Feed one request through Kafka and follow it; whether it came to its own end."""
        crawl = CrawlKey("link", "demo", f"demo-{self._web.port}")
        request = {**seed(crawl, self._web.seed_url, 0), "maxdepth": DEPTH}
        self._console.print("[bold]3[/] Feeding one crawl request through Kafka")
        self._console.print_json(data=request)
        with open_results(self._results) as file:

            def keep(record: bytes, result: Mapping[str, Any]) -> None:
                file.write(record + b"\n")
                self._delivered[result["url"]] = result["status_code"]
                self._ids.add(result["id"])
                if len(self._samples) < _SAMPLES:
                    self._samples.append(result)

            follower = Follower(settings, crawl, [request], on_result=keep)
            with self._bar(follower.progress):
                return (await follower.run()).finished

    @contextmanager
    def _bar(self, progress: CrawlProgress) -> Iterator[None]:
        """How many of the pages that must come have come."""
        columns = (TextColumn("  pages"), BarColumn(), MofNCompleteColumn())
        with Bar(
            *columns, TextColumn("{task.fields[last]}", markup=False), console=self._console
        ) as bar:
            task = bar.add_task("", total=len(self._truth.delivered), last="")

            async def tick() -> None:
                while True:
                    bar.update(
                        task, completed=len(self._delivered), last=printable(progress.last_url[:60])
                    )
                    await asyncio.sleep(0.1)

            ticker = asyncio.create_task(tick())
            try:
                yield
            finally:
                ticker.cancel()
                bar.update(task, completed=len(self._delivered), last="")

    def _verdict(self) -> Verdict:
        hosts = self._web.hosts
        return Verdict(
            web=self._web,
            truth=self._truth,
            delivered=self._delivered,
            visits=read_visits(self._log),
            hits={**dict.fromkeys(hosts, HITS), hosts[-1]: SLOW_HITS},
        )

    def _await_files(self, finished: bool) -> Counter[str]:
        """Count each page in the files of the pipeline, once it has written all of them."""
        deadline = time.monotonic() + (_FILES_WITHIN_S if finished else 0)
        while (stored := stored_pages(self._files)).total() < len(self._ids):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        return stored

    def _tell(self, verdict: Verdict, problems: list[str], stored: int) -> None:
        """Print the results, and the verdict of the site."""
        console, slow = self._console, self._web.hosts[-1]
        console.print("[bold]4[/] Some of the results")
        for result in self._samples:
            console.print("  ", describe(result), sep="")
        console.print("[bold]5[/] Checking against the site's own access log")
        facts = {
            "pages that the crawl must deliver": len(self._truth.delivered),
            "pages delivered on the result topic": len(self._delivered),
            "pages in the files of the pipeline": stored,
            "pages that robots.txt disallows": len(self._truth.forbidden),
            f"busiest second at {slow}, whose rule is {SLOW_HITS}": verdict.busiest.get(slow, 0),
        }
        for fact, count in facts.items():
            console.print(f"  {fact:<46}{count:>5}")
        for problem in problems[:20]:
            console.print(f"  {problem}", style="red", markup=False, soft_wrap=True)
        if not problems:
            console.print(
                "  [green]Every page was delivered, none was fetched twice, no rate limit was"
                " exceeded.\n  [green]Every page is in the files once."
            )

    def _say_how_to_use_it(self) -> None:
        slow = self._web.hosts[-1]
        self._console.print(
            "[bold]6[/] The cluster and the site are still running. In this directory:\n"
            f"  export CRAWLSTREAM_HOME={self._home}\n"
            f"  {COMMAND} status\n"
            f"  {COMMAND} crawl {self._web.seed_url} --depth 2\n"
            f"  {COMMAND} throttle set {slow} --hits 1 --window 1\n"
            f"  {COMMAND} down",
            soft_wrap=True,
        )
