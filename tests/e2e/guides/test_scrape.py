"""The page about single pages: each of its commands runs, and each exit code is what it says."""

from __future__ import annotations

import json
import re
import shlex
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, serving
from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster, Done
from support.waiting import WaitUntil

GUIDE = (Path(__file__).parents[3] / "docs" / "scrape.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\./crawlstream get (?!.*--screenshot).*$", GUIDE, re.MULTILINE)
"""No crawler of this cluster renders: `integration/monitors/test_screenshots.py` has the other."""


async def typed(cluster: Cluster, command: str, site: CrawlerSite, folder: Path) -> Done:
    """Run a command of the page, about the site as it is here."""
    here = command.replace("https://shop.example.com", site.url(""))
    words = shlex.split(here.removeprefix("./crawlstream "))
    return await cluster.run(*words, folder=folder)


async def test_each_command_of_the_page_works(cluster: Cluster, tmp_path: Path) -> None:
    """Markdown, links, the record, and the end of a redirect in a file."""
    body = (
        "<html><title>Shop</title><body><main><h1>Lamps</h1><p>Grüße an <a href=/new>alle</a>, die"
        " heute Lampen suchen und hier welche finden.</p></main></body></html>"
    ).encode()
    pages = {
        "/": Answer(body, headers={"Content-Type": "text/html; charset=utf-8"}),
        "/old": Answer(status=301, headers={"Location": "/"}),
    }
    with serving(pages) as site:
        plain, links, record, to_file, recent = [
            await typed(cluster, command, site, tmp_path) for command in COMMANDS
        ]
        text = await cluster.run("get", site.url("/"), "--text")
        wants_new = await cluster.run("get", site.url("/other"), "--max-age", "1h")
        paths = site.paths()
        both = await cluster.run("get", site.url("/"), "--text", "--links")
    assert plain.status == 0, plain.err
    assert (recent.status, recent.out) == (text.status, text.out)
    # The page of `plain`, `links`, `record`, of the redirect, and of `text`: not of `recent`.
    assert (paths.count("/"), paths.count("/other"), wants_new.status) == (5, 1, 3)
    assert plain.out.startswith("# Lamps\n")
    assert f"Grüße an [alle]({site.url('/new')})" in plain.out
    assert links.out == f"{site.url('/new')}\n"
    assert "Grüße an alle, die heute" in text.out
    assert (both.status, "--text and --links: choose one" in both.err) == (2, True)
    told = json.loads(record.out)
    assert (told["url"], told["status_code"], told["body"]) == (site.url("/"), 200, body.decode())
    assert (to_file.status, to_file.out) == (0, "")
    assert (tmp_path / "page.html").read_bytes() == body


async def test_exit_codes_tell_how_it_went(cluster: Cluster) -> None:
    """3: another status; 4: no page, with the reason and advice, or rejected; 5: not in time."""
    pages = {"/slow": Answer(b"late", after_s=4)}
    with serving(pages) as site:
        missing = await cluster.run("get", site.url("/missing"))
        late = await cluster.run("get", site.url("/slow"), "--wait", "1")
    assert (missing.status, missing.err.strip()) == (3, f"{site.url('/missing')}: status 404")
    assert late.status == 5
    assert re.search(r"no page within 1 s\. It may still come: `.*info get-\w+`", late.err)
    refused = await cluster.run("get", "http://10.1.2.3/")
    assert refused.status == 4
    assert "address_refused: private and loopback addresses are not fetched" in refused.err
    wrong = await cluster.run("get", "ftp://a.example/")
    assert wrong.status == 2
    silent = await cluster.run(
        "get", "http://a.example/", extra={"KAFKA_HOSTS": "127.0.0.1:9", "KAFKA_FEED_TIMEOUT": "2"}
    )
    assert silent.status == 1
    assert "Kafka does not answer at 127.0.0.1:9" in silent.err


async def test_without_a_crawler_it_says_so(cluster: Cluster) -> None:
    """No crawler of this cluster renders pages."""
    done = await cluster.run("get", "http://127.0.0.1:9/", "--render", "--wait", "3")
    assert done.status == 5
    assert "No crawler" in done.err


@pytest.mark.parametrize("how", ["stop", "expires"])
async def test_a_crawl_that_ends_early_answers_who_waits(
    cluster: Cluster, witness: Witness, wait_until: WaitUntil, how: str
) -> None:
    """All processes answer clients that wait when a crawl ends before the time of its seed."""
    name = f"early-{uuid.uuid4().hex[:8]}"
    far_away = 4_000_000_000
    request = {
        "url": "http://127.0.0.1:9/",
        "appid": "answers",
        "crawlid": name,
        "uuid": name,
        "answer": "page",
        "not_before": far_away,
        **({"expires": 1} if how == "expires" else {}),
    }
    witness.feed(request)
    if how == "stop":
        await wait_until(partial(witness.events, name, "crawl_started"))
        done = await cluster.run("stop", name, "--appid", "answers")
        assert done.status == 0, done.err
    reply = await witness.answered(name)
    reason = "stopped" if how == "stop" else "expired"
    assert (reply["action"], reply["reason"], reply["crawlid"]) == ("page", reason, name)


async def test_a_request_that_is_wrong_is_rejected_in_words(
    witness: Witness, wait_until: WaitUntil
) -> None:
    """`answer` needs a `uuid`; a client that waits for a page gets `rejected` as ever."""
    name = f"wrong-{uuid.uuid4().hex[:8]}"
    asked = {"url": "http://a.example/", "appid": "answers", "crawlid": name, "answer": "page"}
    witness.feed(asked)
    witness.feed({**asked, "uuid": name, "maxdepth": -1})

    def told() -> list[dict[str, Any]]:
        found = witness.records("outbound_firehose", crawlid=name)
        return [each.value for each in found] if len(found) == 2 else []

    second, first = sorted(await wait_until(told), key=lambda reply: "uuid" not in reply)
    assert {first["action"], second["action"]} == {"rejected"}
    assert first["errors"] == ["$.answer: `page` needs `uuid`: the reply has it"]
    assert second["uuid"] == name
