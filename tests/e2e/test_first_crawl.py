"""The command ``crawlstream crawl`` of a new user: never silent, and true to the end."""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import json
import os
import pty
import re
import signal
import sys
import termios
import zipfile
from pathlib import Path

from pyarrow import parquet
from warcio.archiveiterator import ArchiveIterator

from crawlstream_chaos.scripted_site import Answer, serving
from crawlstream_chaos.witness import Witness
from crawlstream_cli.local.ports import free_block
from e2e.cluster import Cluster
from e2e.sites import Serve


async def test_a_crawl_stays_where_it_began_and_tells_how_it_goes(
    serve: Serve, cluster: Cluster
) -> None:
    """Shows one host of three, its rule, a line every ten seconds, and the outcome."""
    async with serve(hosts=3, pages=30, slow_pages=0) as served:
        host = served.web.hosts[0]
        await cluster.throttle("set", host, "--hits", "1", "--window", "3")
        done = await cluster.run("crawl", served.web.seed_url, "-d", "3", "--max-pages", "5")
        assert done.status == 0, done.err
        assert {visit.host for visit in served.visits()} == {host}
    first, rule, remedy, *_ = done.err.splitlines()
    assert re.fullmatch(rf"Crawl \w+: 1 seed, links are followed .* to {re.escape(host)} .*", first)
    assert f"{host} gets 1 per 3 s" in rule
    assert f"./crawlstream throttle set {host} " in remedy
    line = r"\n\d done, \d+ waiting, \d+ in flight, 0 failed, 0\.\d pages/s, .*next request "
    assert re.search(line, done.err)
    assert re.search(r"\nCrawl \w+ finished: 5 pages, \d+ filtered \(.*\), .*B, \d\d s\n", done.err)


async def test_a_crawl_that_fetches_nothing_fails_and_says_why(cluster: Cluster) -> None:
    """Exit code 1, the URL, the reason, what to do."""
    url = f"http://127.0.0.1:{free_block(1)}/"
    done = await cluster.run("crawl", url, "--json")
    assert done.status == 1
    assert json.loads(done.out)["failed"] == {"refused": 1}
    done = await cluster.run("crawl", url)
    assert done.status == 1
    assert f"No page was fetched.\n  {url}  refused: nothing listens" in done.err


async def test_whoever_goes_beyond_this_machine_is_told_what_sites_see(cluster: Cluster) -> None:
    """Warns of the placeholder unless it was replaced, except on loopback."""
    done = await cluster.run("crawl", "http://10.0.0.1/")
    assert "USER_AGENT is not set, so sites see 'crawlstream/" in done.err
    assert "address_refused: private and loopback addresses are not fetched" in done.err
    assert done.status == 1
    named = {"USER_AGENT": "example-bot/1.0 (+https://example.com/bot)"}
    for words, extra in (("http://10.0.0.1/", named), (f"http://127.0.0.1:{free_block(1)}/", {})):
        assert "USER_AGENT" not in (await cluster.run("crawl", words, extra=extra)).err


async def test_a_crawl_whose_crawlers_went_away_says_so(serve: Serve, cluster: Cluster) -> None:
    """They existed at the start; once no more pages come, the command looks for them again."""
    async with serve(hosts=1, pages=5, slow_pages=0) as served, asyncio.timeout(150):
        await cluster.throttle("set", served.web.hosts[0], "--hits", "1", "--window", "2")
        async with cluster.begun("crawl", served.web.seed_url, "-d", "1") as command:
            assert command.stderr is not None
            await command.stderr.readuntil(served.web.seed_url.encode())
            async with cluster.without("crawler"):
                said = await command.stderr.readuntil(b"No crawler of spider link is running")
            said += await command.stderr.read()
            assert await command.wait() == 0, said


async def test_a_term_stops_the_crawl(serve: Serve, cluster: Cluster, witness: Witness) -> None:
    """Stops the crawl on SIGTERM, and exits with 143."""
    async with serve(hosts=1, pages=30, slow_pages=0) as served, asyncio.timeout(60):
        await cluster.throttle("set", served.web.hosts[0], "--hits", "1", "--window", "2")
        async with cluster.begun("crawl", served.web.seed_url, "-d", "2") as command:
            assert command.stderr is not None
            first = (await command.stderr.readline()).decode()
            said = (await command.stderr.readuntil(b"200 ")).decode()
            command.send_signal(signal.SIGTERM)
            said += (await command.stderr.read()).decode()
            assert await command.wait() == 128 + signal.SIGTERM
        (crawlid,) = re.findall(r"^Crawl (\w+): 1 seed", first)
        assert (await witness.ended(crawlid))["event"] == "crawl_stopped"
    assert re.search(r"Stopped; \d+ queued pages? (was|were) dropped", said), said


async def test_a_closed_terminal_stops_the_crawl(
    serve: Serve, cluster: Cluster, witness: Witness
) -> None:
    """The terminal shows a live line; writes to it after it has closed do not fail the command."""
    ours, theirs = pty.openpty()

    def own_terminal() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Whatever ran the tests may ignore it.
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    async with serve(hosts=1, pages=30, slow_pages=0) as served, asyncio.timeout(60):
        await cluster.throttle("set", served.web.hosts[0], "--hits", "1", "--window", "2")
        command = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "crawlstream_cli", "crawl", served.web.seed_url, "-d", "2"),
            env={**cluster.environment, "TERM": "xterm", "COLUMNS": "200"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=own_terminal,
        )
        os.close(theirs)
        seen = ""
        while " in flight, 0 failed, " not in seen:
            seen += (await asyncio.to_thread(os.read, ours, 65536)).decode()
        os.close(ours)
        assert await command.wait() == 128 + signal.SIGHUP
        (crawlid,) = re.findall(r"Crawl (\w+): 1 seed", seen)
        assert (await witness.ended(crawlid))["event"] == "crawl_stopped"


async def test_a_crawl_can_be_left_and_followed_again(
    serve: Serve, cluster: Cluster, tmp_path: Path
) -> None:
    """``--detach`` gives its id; ``--attach`` has all its pages, and leaves it if interrupted.

    In whichever format the name of the file asks for. Its duration is that of the crawl.
    """
    file = tmp_path / "pages.jsonl"
    file.write_text("of a crawl before\n")
    async with serve(hosts=1, pages=4, slow_pages=0) as served, asyncio.timeout(120):
        await cluster.throttle("set", served.web.hosts[0], "--hits", "1", "--window", "20")
        left = await cluster.run("crawl", served.web.seed_url, "-d", "9", "--detach")
        assert left.status == 0, left.err
        crawlid = left.out.strip()
        assert f"./crawlstream crawl --attach {crawlid}\n" in left.err
        assert f"./crawlstream stop {crawlid}\n" in left.err
        async with cluster.begun("crawl", "--attach", crawlid) as command:
            assert command.stderr is not None
            await command.stderr.readuntil(served.web.seed_url.encode())
            command.send_signal(signal.SIGINT)
            assert b"It goes on" in await command.stderr.read()
            assert await command.wait() == 130
        await cluster.throttle("set", served.web.hosts[0], "--hits", "1", "--window", "1")
        done = await cluster.run("crawl", "--attach", crawlid, "-o", str(file))
        assert done.status == 0, done.err
        assert f"{file} exists: it is replaced when the crawl ends\n" in done.err
        for other in ("warc.gz", "wacz", "parquet"):
            another = ("crawl", "--attach", crawlid, "-o", str(tmp_path / f"pages.{other}"))
            done = await cluster.run(*another, "--json")
            assert done.status == 0, done.err
            assert json.loads(done.out)["seconds"] >= len(served.truth(maxdepth=9).delivered) - 2
        truth = served.truth(maxdepth=9)
    rows = parquet.read_table(tmp_path / "pages.parquet").to_pylist()
    assert sorted(row["url"] for row in rows) == sorted(truth.delivered)
    with (tmp_path / "pages.warc.gz").open("rb") as archive:
        answers = [each for each in ArchiveIterator(archive) if each.rec_type == "response"]
        urls = sorted(each.rec_headers.get_header("WARC-Target-URI") for each in answers)
    assert urls == sorted(truth.delivered)
    with zipfile.ZipFile(tmp_path / "pages.wacz") as packed:
        listed = [json.loads(line) for line in packed.read("pages/pages.jsonl").splitlines()[1:]]
    shown = sorted(url for url, status in truth.delivered.items() if status == 200)
    assert sorted(page["url"] for page in listed) == shown
    pages = [json.loads(line) for line in file.read_text().splitlines()]
    assert {page["url"]: page["status_code"] for page in pages} == truth.delivered
    assert len(pages) == len(truth.delivered)


async def test_an_archive_has_the_images_of_its_pages(cluster: Cluster, tmp_path: Path) -> None:
    """Archives images and redirects of pages; ``--no-requisites`` leaves images and styles out."""
    markup = b"<link rel=stylesheet href=s.css><img srcset='//127.77.0.2:%d/1.png 2x'>"
    pages = {
        "/s.css": Answer(b"a{background:url(2.png)}", headers={"Content-Type": "text/css"}),
        **{f"/{n}.png": Answer(b"\1PNG", headers={"Content-Type": "image/png"}) for n in (1, 2)},
    }
    kept = {}
    with serving(pages) as site:
        site.pages["/"] = Answer(markup % site.port)
        site.pages["/old"] = Answer(status=301, headers={"Location": "/"})
        url = site.url("/old", "127.77.0.1")
        for name in ("--requisites", "--no-requisites"):
            file = tmp_path / f"{name}.wacz"
            done = await cluster.run("crawl", url, name, "-o", str(file), "--json")
            assert (done.status, json.loads(done.out)["pages"]) == (0, 1), done.err
            with zipfile.ZipFile(file) as packed:
                index = gzip.decompress(packed.read("indexes/index.cdx.gz")).splitlines()
                assert len(packed.read("pages/pages.jsonl").splitlines()) == 2
            kept[name] = sorted(json.loads(line.split(b" ", 2)[2])["url"] for line in index)
        images = [site.url(path, "127.77.0.1") for path in ("/", "/2.png", "/old", "/s.css")]
        assert kept["--requisites"] == [*images, site.url("/1.png", "127.77.0.2")]
    assert kept["--no-requisites"] == [images[0], url]


async def test_nobody_can_follow_what_is_not_known(cluster: Cluster) -> None:
    """Refuses to follow an unknown crawl, or to detach a rejected seed."""
    done = await cluster.run("crawl", "--attach", "never-was")
    assert done.status == 1
    assert done.err.startswith("crawlstream: no crawl never-was is known")
    done = await cluster.run("crawl", "ftp://example.com/", "--detach", "--json")
    assert done.status == 1
    assert list(json.loads(done.out)["refused"].values())
