"""``POST /v2/map`` and ``crawlstream map`` on a whole cluster: the URLs of a site."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import shlex
from pathlib import Path

from crawlstream_chaos.scripted_site import Answer
from e2e.cluster import Cluster
from e2e.web.scrapes import another, rest_fixture, site_of
from support.rest import RestProcess

__all__ = ["rest_fixture"]

GUIDE = (Path(__file__).parents[3] / "docs" / "scrape.md").read_text(encoding="utf-8")
SECTION = GUIDE[GUIDE.index("## URLs of a site") : GUIDE.index("## Without the command")]
XML = {"Content-Type": "application/xml"}


def urlset(*paths: str) -> Answer:
    """Return a sitemap; the last of its pages has changed last."""
    entries = [
        f"<url><loc>{path}</loc><lastmod>2026-11-{day:02}</lastmod></url>"
        for day, path in enumerate(paths, 1)
    ]
    return Answer(f"<urlset>{''.join(entries)}</urlset>".encode(), headers=XML)


def pages() -> dict[str, Answer]:
    """Return a site whose robots.txt names an index of two sitemaps, one of them compressed."""
    index = b"<sitemapindex><sitemap><loc>/one.xml</loc></sitemap><sitemap><loc>/two.xml.gz</loc>"
    index += (
        b"</sitemap><sitemap><loc>http://elsewhere.example/s.xml</loc></sitemap></sitemapindex>"
    )
    two = gzip.compress(urlset("/guide/c").body)
    return {
        "/robots.txt": Answer(b"Sitemap: /index.xml", headers={"Content-Type": "text/plain"}),
        "/index.xml": Answer(index, headers=XML),
        "/one.xml": urlset("/guide/a", "/b", "http://elsewhere.example/x"),
        "/two.xml.gz": Answer(two, headers={"Content-Type": "application/gzip"}),
        "/": Answer(b"<html><body><a href=/guide/a>A</a> <a href=/guide/d>D</a></body></html>"),
    }


async def test_the_urls_of_a_site_are_listed(
    cluster: Cluster, rest: RestProcess, tmp_path: Path
) -> None:
    """By its sitemaps and links; again from pages of the last hour, which cost no request."""
    with site_of(pages()) as (site, host):
        url = site.url("/", host)
        answer = await rest.post("/v2/map", {"url": url, "wait": 60})
        assert answer.status == 200, answer.body
        again = await rest.get(f"/v2/map/{answer.data['id']}")
        assert again.data == answer.data
        assert answer.data["state"] == "done"
        found = {one["url"].removeprefix(url): one for one in answer.data["urls"]}
        assert [*found] == ["b", "guide/a", "guide/c", "guide/d"]
        assert found["guide/a"]["from"] == ["sitemap", "links"]
        assert (found["b"]["lastmod"], found["guide/d"]["title"]) == ("2026-11-02", "D")
        assert answer.data["complete"] is True, answer.data
        assert len(answer.data["sitemaps"]) == 3
        seen = sorted(site.paths())
        assert len(seen) == len(set(seen))
        lines = await rest.post(
            "/v2/map", {"url": url, "match": "/guide/", "limit": 2}, Accept="application/x-ndjson"
        )
        assert [json.loads(line)["url"] for line in lines.body.splitlines()] == [
            f"{url}guide/a",
            f"{url}guide/c",
        ]
        async with another(cluster, tmp_path) as other:
            later = await other.post("/v2/map", {"url": url, "wait": 0})
            assert later.status == 202, later.body
            made = await other.get(f"{later.headers['location']}?wait=60")
            assert made.data["total"] == 4
            lost = await rest.get(later.headers["location"])
            assert (lost.status, lost.error["code"]) == (404, "no_such_map")
        assert sorted(site.paths()) == seen


async def test_what_is_missing_of_a_list_is_told(cluster: Cluster, rest: RestProcess) -> None:
    """A sitemap that is not there; a site that is blocked; nothing at all is an answer."""
    robots = Answer(b"Sitemap: /none.xml", headers={"Content-Type": "text/plain"})
    with site_of({"/robots.txt": robots, "/": Answer(b"<html><body>x</body></html>")}) as (
        site,
        host,
    ):
        url = site.url("/", host)
        data = (await rest.post("/v2/map", {"url": url, "wait": 60})).data
        assert (data["complete"], data["urls"]) == (False, [])
        assert data["problems"] == [f"{url}none.xml: status 404"]
        done = await cluster.run("map", url, "--rest", f"http://127.0.0.1:{rest.port}")
        assert (done.status, done.err.strip()) == (3, f"{url}none.xml: status 404")
    with site_of({"/": Answer(b"<html><body>x</body></html>")}) as (site, host):
        nothing = (await rest.post("/v2/map", {"url": site.url("/", host), "wait": 60})).data
        assert (nothing["urls"], nothing["complete"]) == ([], True)
    await cluster.throttle("block", "127.77.254.1")
    blocked = await rest.post("/v2/map", {"url": "http://127.77.254.1/", "wait": 60})
    assert (blocked.status, blocked.error["code"]) == (409, "site_blocked")
    wrong = await cluster.run("map", "file:///a", "--rest", f"http://127.0.0.1:{rest.port}")
    assert (wrong.status, "REST refuses" in wrong.err) == (1, True)
    silent = await cluster.run("map", "http://a.example/", "--rest", "http://127.0.0.1:9")
    assert (silent.status, "does not answer" in silent.err) == (1, True)


async def test_the_commands_of_the_guide_about_maps_work(
    cluster: Cluster, rest: RestProcess
) -> None:
    """The line with curl and those of the command, for another site and port."""
    (curl,) = re.findall(r"```sh\n(curl.*?)```", SECTION, re.DOTALL)
    commands = re.findall(r"^\./crawlstream (map [^|\n]*)", SECTION, re.MULTILINE)
    assert len(commands) == 4
    with site_of(pages()) as (site, host):
        here = site.url("/", host)
        words = curl.replace("https://docs.example.com/", here)
        words = words.replace("localhost:5343", f"127.0.0.1:{rest.port}")
        process = await asyncio.create_subprocess_exec(
            *shlex.split(words), stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await asyncio.wait_for(process.communicate(), 60)
        assert json.loads(printed)["data"]["total"] == 3
        outs = []
        for command in commands:
            typed = shlex.split(command.replace("https://docs.example.com/", here))
            done = await cluster.run(*typed, "--rest", f"http://127.0.0.1:{rest.port}")
            assert done.status == 0, done.err
            outs.append(done.out.splitlines())
    plain, matched, seeds, waiting = outs
    assert len(plain) == 4
    assert matched == [f"{here}guide/{name}" for name in "acd"]
    assert [json.loads(line) for line in seeds] == [{"url": url} for url in plain]
    assert waiting == []
