"""Take the pictures of the documentation: a cluster, a site and a browser, all started here.

``PYTHONPATH=tests .venv/bin/python -m pictures [NAME…]`` writes ``docs/images``: five screens of
the dashboard, light and dark, and two terminals that play (``terminal``, ``first-crawl``). It takes
some four minutes, and exits with 1 if a screen could not be had; the others are written all the
same.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from e2e.cluster import Cluster, start_cluster
from e2e.sites import ServedWeb, serving_in
from pictures.documentation import built_in, serving
from pictures.svg import render
from pictures.terminal import Recording
from support.browser import Tab, chromium

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MAX_BYTES = 150_000
"""Size of one picture."""
APP, CRAWL = "library", "catalogue-2026"
_DOCUMENTATION = "127.0.0.9"
"""Host of a site that was not crawled yet."""
_WIDTH, _HEIGHT = 1280, 800
_QUALITY = 82
_CRAWL_S = 40.0
"""How long the crawl goes on before it is looked at: charts need a few windows."""
_DRAW_S = 2.5
_LIGHTS = {"light": False, "dark": True}


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture and the paths of its screen; the first that answers is taken."""

    name: str
    paths: Sequence[str]


def shots(seed: str) -> Sequence[Shot]:
    """The screens that are shown."""
    crawl = urlencode({"appid": APP, "crawlid": CRAWL})
    return (
        Shot("cluster", ["/"]),
        Shot("crawl", [f"/ui/crawl?{crawl}"]),
        Shot("domains", ["/ui/domains"]),
        Shot("page", [f"/ui/url?{urlencode({'url': seed})}", f"/ui/crawl/pages?{crawl}"]),
        Shot("submit", ["/ui/submit"]),
    )


async def main(wanted: Sequence[str]) -> int:
    """Answer the exit code."""
    with tempfile.TemporaryDirectory(prefix="pictures-") as name:
        folder = Path(name)
        cluster = start_cluster(folder / "cluster")
        try:
            return await _take(cluster, folder, wanted)
        finally:
            cluster.stop()


async def _take(cluster: Cluster, folder: Path, wanted: Sequence[str]) -> int:
    serve = serving_in(folder)
    failed = 0
    if not wanted or "first-crawl" in wanted:  # Before other crawls are counted.
        await _record_first_crawl(cluster, folder)
    if wanted and {*wanted} <= {"first-crawl"}:
        return 0
    async with serve(hosts=8, pages=12000, slow_pages=0, slow_s=0.05) as served:
        seed = served.web.seed_url
        chosen = [shot for shot in shots(seed) if not wanted or shot.name in wanted]
        await _begin_crawls(cluster, served)
        if not wanted or "terminal" in wanted:
            async with serve(hosts=1, pages=60, slow_pages=0) as small:
                await _record(cluster, small, folder)
        if chosen:
            await asyncio.sleep(_CRAWL_S)
            failed = await _photograph(cluster, folder, chosen)
    return 1 if failed else 0


async def _begin_crawls(cluster: Cluster, served: ServedWeb) -> None:
    """Rules, a large crawl, a small one, one that is paused, and records that are refused."""
    hosts, seed = served.web.hosts, served.web.seed_url
    await cluster.throttle("set", "default", "--hits", "10", "--window", "1")
    await cluster.throttle("set", hosts[0], "--hits", "20", "--window", "1")
    await cluster.throttle("set", hosts[1], "--hits", "2", "--window", "1")
    requests = [
        {"url": seed, "appid": APP, "crawlid": CRAWL, "maxdepth": 9},
        {"url": seed, "appid": APP, "crawlid": "front-pages", "maxdepth": 1},
        {"url": served.url("/", 3), "appid": "prices", "crawlid": "weekly", "maxdepth": 9},
        {"url": "ftp://example.com/", "appid": "prices", "crawlid": "weekly"},
        {"url": seed, "appid": "prices", "crawlid": "weekly", "maxdeph": 2},
    ]
    port = cluster.environment["KAFKA_HOSTS"]
    await asyncio.to_thread(_feed, port, cluster.prefix, requests)
    await asyncio.sleep(3)
    done = await cluster.run("pause", "weekly", "--appid", "prices")
    _note(f"pause: {done.out.strip() or done.err.strip()}")


def _feed(hosts: str, prefix: str, requests: Sequence[object]) -> None:
    """By a client of its own, as anybody's: what the commands refuse reaches Kafka too."""
    from kafka import KafkaProducer  # noqa: PLC0415  a client from outside

    producer = KafkaProducer(bootstrap_servers=hosts)
    for request in requests:
        producer.send(f"{prefix}.incoming", json.dumps(request).encode()).get(30)
    producer.close()


async def _record(cluster: Cluster, small: ServedWeb, folder: Path) -> None:
    """Three commands in a terminal."""
    seed, domain = small.web.seed_url, small.web.hosts[0]
    lines = (
        f"throttle set {domain} --hits 8 --window 1",
        f"crawl {seed} --depth 2 -o pages.jsonl",
        "crawls --appid crawlstream",
    )
    title = "A terminal: a rate is set, and a crawl runs to its end"
    await _play(cluster, lines, Recording(rows=18), folder=folder, name="terminal", title=title)


async def _record_first_crawl(cluster: Cluster, folder: Path) -> None:
    """A site of documentation, as anybody would crawl it first: by the default rule, then faster.

    PICTURES_SITE names a folder of HTML pages; without it, the project's own documentation is
    crawled. Six seconds are shown in one.
    """
    await cluster.throttle("set", "default", "--hits", "10", "--window", "60")
    given = os.environ.get("PICTURES_SITE")
    site = Path(given) if given else await asyncio.to_thread(built_in, folder / "site")
    with serving(site, _DOCUMENTATION) as url:
        lines = (
            f"crawl {url} --depth 2 --max-pages 8 -o pages.jsonl",
            f"throttle set {_DOCUMENTATION} --hits 5 --window 1",
            f"crawl {url} --depth 2 --max-pages 80 -o more.jsonl",
            "stats spider",
        )
        recording = Recording(columns=100, rows=26, shortest_s=1.5, speed=6)
        title = "A terminal: a first crawl by the default rule, six times as fast as it was"
        await _play(cluster, lines, recording, folder=folder, name="first-crawl", title=title)


async def _play(
    cluster: Cluster,
    lines: Sequence[str],
    recording: Recording,
    *,
    folder: Path,
    name: str,
    title: str,
) -> None:
    """Run commands in one terminal, and write what is seen."""
    for line in lines:
        recording.type_command(f"./crawlstream {line}")
        status = await asyncio.to_thread(
            recording.run,
            [sys.executable, "-m", "crawlstream_cli", *line.split()],
            environment=cluster.environment,
            folder=folder,
        )
        _note(f"{line}: exit code {status}")
    _write(IMAGES / f"{name}.svg", render(recording, title=title).encode())


async def _photograph(cluster: Cluster, folder: Path, chosen: Sequence[Shot]) -> int:
    """Take each screen in light and dark; how many could not be had."""
    base = f"http://127.0.0.1:{cluster.environment['CRAWLSTREAM_REST_PORT']}"
    profile = folder / "chromium"
    profile.mkdir()
    failed = 0
    async with chromium(profile) as browser:
        tab = await browser.tab()
        for shot in chosen:
            if not await _open_first(tab, base, shot):
                _note(f"{shot.name}: none of its screens answers: {', '.join(shot.paths)}")
                failed += 1
                continue
            for light, is_dark in _LIGHTS.items():
                await tab.look(width=_WIDTH, height=_HEIGHT, dark=is_dark)
                await asyncio.sleep(_DRAW_S)
                _write(IMAGES / f"{shot.name}-{light}.webp", await _webp(tab))
    return failed


async def _open_first(tab: Tab, base: str, shot: Shot) -> bool:
    """Open the first path of a screen that is a screen."""
    await tab.look(width=_WIDTH, height=_HEIGHT)
    for path in shot.paths:
        await tab.go(base + quote(path, safe="/?&=%:+"))
        status = await tab.run("performance.getEntriesByType('navigation')[0].responseStatus")
        if status == 200 and await tab.run("document.querySelector('h1') !== null"):
            return True
    return False


async def _webp(tab: Tab) -> bytes:
    """The visible part, no larger than a picture may be."""
    for quality in range(_QUALITY, 20, -12):
        answer = await tab.call("Page.captureScreenshot", format="webp", quality=quality)
        picture = base64.b64decode(answer["data"])
        if len(picture) <= MAX_BYTES:
            break
    return picture


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    _note(f"{path.name}: {len(content) / 1000:.0f} kB")


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
