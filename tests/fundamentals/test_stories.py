"""Uses of a cluster, one story each; read these before the handbook."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve
from support.waiting import WaitUntil

README = Path(__file__).parents[2] / "README.md"
WIDE = ("--scope", "any")
"""Each of several hosts of the demo's site is one of its own."""


async def test_the_program_in_the_readme_works(
    serve: Serve, cluster: Cluster, tmp_path: Path
) -> None:
    """The lines of Python in the README, pointed at this cluster and a real page, print it."""
    program = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    async with serve(hosts=1, pages=5) as served:
        program = program.replace("localhost:9092", cluster.hosts)
        program = program.replace("https://example.com/", served.web.seed_url)
        script = tmp_path / "client.py"
        script.write_text(program)
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", str(script)), stdout=asyncio.subprocess.PIPE
        )
        assert client.stdout is not None
        urls = set()
        async with asyncio.timeout(30):
            while served.web.seed_url not in urls:
                status, url, _ = (await client.stdout.readline()).decode().split()
                urls.add(url)
        client.kill()
        await client.wait()
    assert status == "200"


async def test_one_command_crawls_a_site_into_a_file(
    serve: Serve, cluster: Cluster, tmp_path: Path
) -> None:
    """``crawl URL --depth N -o FILE`` ends with the crawl; the file holds each page once."""
    async with serve(hosts=3, pages=40) as served:
        file = tmp_path / "pages" / "all.jsonl"
        done = await cluster.run(
            "crawl", served.web.seed_url, *WIDE, "-d", "2", "-o", str(file), "--json"
        )
        assert done.status == 0, done.err
        truth = served.truth(maxdepth=2)
    pages = [json.loads(line) for line in file.read_text().splitlines()]
    assert {page["url"]: page["status_code"] for page in pages} == truth.delivered
    assert len(pages) == len(truth.delivered)
    summary = json.loads(done.out)
    assert summary["ending"] == "crawl_finished"
    assert summary["pages"] == len(pages)


async def test_a_crawl_may_be_limited_to_so_many_pages(serve: Serve, cluster: Cluster) -> None:
    """``--max-pages`` bounds the whole crawl; without a file, pages are listed as they come."""
    async with serve(hosts=2, pages=40) as served:
        done = await cluster.run("crawl", served.web.seed_url, *WIDE, "-d", "3", "--max-pages", "7")
        assert done.status == 0, done.err
        assert served.web.seed_url in done.err
        assert "finished" in done.err
        moved = served.truth(maxdepth=3).redirected
        assert len([url for url in served.fetches() if url not in moved]) <= 7


async def test_a_seed_that_cannot_be_crawled_is_refused_in_words(cluster: Cluster) -> None:
    """The command says why and fails; it does not wait for a crawl that will never be."""
    done = await cluster.run("crawl", "ftp://example.com/")
    assert done.status == 1
    assert "Rejected: " in done.err
    assert "Traceback" not in done.err


async def test_a_crawl_can_be_watched_and_stopped(
    serve: Serve, cluster: Cluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """``info`` lists it with its ledger, ``stop`` ends it and counts the pages still queued."""
    async with serve(hosts=1, pages=30) as served:
        await cluster.throttle("set", served.web.hosts[0], "--hits", "2", "--window", "10")
        crawlid = f"watched-{served.web.port}"
        request = {"url": served.web.seed_url, "appid": "story", "crawlid": crawlid, "maxdepth": 2}
        fed = await cluster.run("feed", json.dumps(request), "--json")
        said = json.loads(fed.out)
        assert (said["fed"], said["topic"]) == (1, f"{cluster.prefix}.incoming")
        await wait_until(lambda: witness.results(crawlid), timeout_s=20)
        listed = json.loads((await cluster.run("info", "--json")).out)
        assert crawlid in {state["crawlid"] for state in listed}
        info = await cluster.run("info", crawlid, "--appid", "story", "--json")
        assert json.loads(info.out)["pending"] > 0
        table = await cluster.run("info", crawlid)
        assert served.web.hosts[0] in table.out
        assert "of application story" in table.out
        unknown = await cluster.run("info", "nobody-fed-this")
        assert (unknown.status, unknown.out) == (1, "")
        assert "unknown crawl nobody-fed-this" in unknown.err
        stopped = await cluster.run("stop", crawlid)
        assert re.search(r"Stopped .*: [1-9]\d* queued pages were dropped", stopped.out)
        assert (await witness.ended(crawlid))["event"] == "crawl_stopped"


async def test_interrupting_the_command_stops_the_crawl(
    serve: Serve, cluster: Cluster, witness: Witness
) -> None:
    """Ctrl-C ends ``crawl`` with 130 and, in the cluster, what it had begun."""
    async with serve(hosts=1, pages=30) as served:
        await cluster.throttle("set", served.web.hosts[0], "--hits", "1", "--window", "2")
        crawl = cluster.begun("crawl", served.web.seed_url, "--depth", "3")
        async with crawl as command, asyncio.timeout(60):
            assert command.stderr is not None
            await command.stderr.readuntil(served.web.seed_url.encode())
            command.send_signal(signal.SIGINT)
            said = (await command.stderr.read()).decode()
            assert await command.wait() == 130
    assert re.search(r"Stopped; [1-9]\d* queued pages were dropped", said), said
    (stop,) = [seen.value for seen in witness.records("outbound_firehose", action="stop")][-1:]
    assert (await witness.ended(stop["crawlid"]))["event"] == "crawl_stopped"


async def test_stopping_what_nobody_crawls_fails_in_words(cluster: Cluster) -> None:
    """An unknown crawl is an error with a sentence."""
    done = await cluster.run("stop", "never-was")
    assert done.status == 1
    assert done.err.startswith("crawlstream: ")
    assert len(done.err.splitlines()) == 1


async def test_rules_are_read_and_written_by_hand(cluster: Cluster) -> None:
    """``throttle set``, ``get``, ``block``, ``unblock`` and ``rm`` edit one domain and no other."""

    async def rules(*arguments: str) -> dict[str, dict[str, Any]]:
        done = await cluster.run("throttle", *arguments, "--json")
        assert done.status == 0, done.err
        shown: dict[str, dict[str, Any]] = json.loads(done.out)
        return shown

    before = await rules("get")
    edited = await rules("set", "example.org", "--hits", "3", "--window", "2.5", "--burst")
    rule = edited["domains"]["example.org"]
    wanted = {"hits": 3, "window": 2.5, "scale": 1.0, "moderated": False}
    assert rule == {**rule, **wanted}
    scaled = await rules("set", "example.org", "--scale", "0.5")
    assert scaled["domains"]["example.org"] == {**rule, "scale": 0.5}
    assert "example.org" in (await rules("block", "example.org"))["blacklist"]
    assert "example.org" not in (await rules("unblock", "example.org"))["blacklist"]
    await rules("rm", "example.org")
    assert await rules("get") == before


async def test_a_topic_can_be_looked_at(
    serve: Serve, cluster: Cluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """``dump`` shows records by the topic's short name; ``kafkadump`` has its old options."""
    async with serve(hosts=1, pages=1) as served:
        crawlid = f"dumped-{served.web.port}"
        witness.feed({"url": served.web.seed_url, "appid": "story", "crawlid": crawlid})
        await wait_until(lambda: witness.results(crawlid), timeout_s=20)
    done = await cluster.run("dump", "crawled", "--no-follow", "--no-body", "--json")
    assert done.status == 0, done.err
    records = [json.loads(line) for line in done.out.splitlines()]
    (record,) = [r for r in records if r["value"]["crawlid"] == crawlid]
    assert record["key"] == record["value"]["id"]
    assert "body" not in record["value"]
    missing = await cluster.run("dump", "no-such-topic", "--no-follow")
    assert missing.status == 1
    assert "topic no-such-topic does not exist" in missing.err


async def test_without_a_cluster_every_command_says_so(cluster: Cluster, tmp_path: Path) -> None:
    """A single sentence with a remedy, and no trace, if Kafka or ZooKeeper cannot be reached."""
    nowhere = {
        "KAFKA_HOSTS": "127.0.0.1:9",
        "ZOOKEEPER_HOSTS": "127.0.0.1:9",
        "REDIS_PORT": "9",
        "CRAWLSTREAM_HOME": str(tmp_path),
        "KAFKA_FEED_TIMEOUT": "2",
    }
    commands = (
        ["feed", '{"url": "http://127.0.0.1/"}'],
        ["crawl", "http://127.0.0.1/"],
        ["dump", "crawled"],
        ["info"],
        ["info", "x"],
        ["stop", "x"],
        ["throttle", "get"],
    )
    for done in await asyncio.gather(*(cluster.run(*c, extra=nowhere) for c in commands)):
        assert done.status == 1
        assert re.match(r"crawlstream: (Kafka|Redis|ZooKeeper) ", done.err.splitlines()[-1])
        assert "Traceback" not in done.err
