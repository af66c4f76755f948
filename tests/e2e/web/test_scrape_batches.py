"""Batches, streams and recent pages of ``/v2/scrape``, on a whole cluster."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crawlstream_chaos.scripted_site import Answer
from e2e.cluster import Cluster
from e2e.web.scrapes import another, rest_fixture, scrape, site_of
from support.rest import JSON, RestProcess

__all__ = ["rest_fixture"]

PAGE = (
    b"<html><title>Tides</title><body><main><h1>Tides</h1><p>Twice a day.</p></main></body></html>"
)
STREAM = {"Accept": "text/event-stream"}
GUIDE = (Path(__file__).parents[3] / "docs" / "scrape.md").read_text(encoding="utf-8")

Event = tuple[str, str, Any]
"""Name, id and data of a server-sent event."""


def _events(
    rest: RestProcess, method: str, path: str, body: object, headers: Mapping[str, str]
) -> Iterator[Event]:
    """Yield the events of a stream; a caller that wants no more breaks the connection."""
    connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=60)
    try:
        sent = json.dumps(body).encode() if body is not None else None
        connection.request(method, path, sent, {**JSON, **STREAM, **headers})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        name = id_ = ""
        for line in response:
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "data":
                yield name, id_, json.loads(value)
                name = id_ = ""
            elif field == "event":
                name = value
            elif field == "id":
                id_ = value
    finally:
        connection.close()


async def events(
    rest: RestProcess,
    method: str,
    path: str,
    body: object = None,
    *,
    most: int = 99,
    **headers: str,
) -> list[Event]:
    """Return the first events of a stream."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}

    def read() -> list[Event]:
        stream = _events(rest, method, path, body, sent)
        found = [event for event, _ in zip(stream, range(most), strict=False)]
        stream.close()  # type: ignore[attr-defined]
        return found

    return await asyncio.to_thread(read)


async def test_a_page_that_was_fetched_before_is_returned_again(
    cluster: Cluster, rest: RestProcess, tmp_path: Path
) -> None:
    """Returns a recent page at any process, also by a redirected URL; no older or private one."""
    pages = {"/a": Answer(PAGE), "/old": Answer(status=301, headers={"Location": "/a"})}
    with site_of(pages) as (site, host):
        url = site.url("/a", host)
        first = (await scrape(rest, site.url("/old", host))).data
        again = (await scrape(rest, site.url("/old", host), max_age=600)).data
        assert (again["id"], again["source"]) == (first["id"], "recent")
        assert 0 <= again["age_s"] <= 600
        assert again["markdown"] == first["markdown"]
        async with another(cluster, tmp_path) as other:
            assert (await scrape(other, url, max_age=600)).data["id"] == first["id"]
            assert (await scrape(other, url, max_age=600, appid="others")).data["id"] != first["id"]
        assert site.paths() == ["/old", "/a", "/a"]
        orders: list[dict[str, Any]] = [{}, {"max_age": 600, "cookie": "a=1"}, {"max_age": 600}]
        fetched = [(await scrape(rest, url, **fields)).data["source"] for fields in orders]
        assert fetched == ["fetched", "fetched", "recent"]
        await asyncio.sleep(1.1)
        assert (await scrape(rest, url, max_age=1)).data["source"] == "fetched"


async def test_one_scrape_is_told_by_events(rest: RestProcess) -> None:
    """It is queued, fetched, and done; a recent page and a failure are done at once."""
    robots = Answer(b"User-agent: *\nDisallow: /no", headers={"Content-Type": "text/plain"})
    with site_of({"/robots.txt": robots, "/a": Answer(PAGE)}) as (site, host):
        order = {"url": site.url("/a", host), "wait": 0}
        told = await events(rest, "POST", "/v2/scrape", order)
        assert [name for name, _, _ in told] == ["queued", "fetched", "done"]
        queued, fetched, done = [data for _, _, data in told]
        assert queued["id"] == fetched["id"] == done["id"] == told[0][1]
        assert (fetched["status_code"], fetched["mime"]) == (200, "text/html")
        assert "# Tides" in done["markdown"]
        recent = await events(rest, "POST", "/v2/scrape", {**order, "max_age": 60})
        assert [(name, data["source"]) for name, _, data in recent] == [("done", "recent")]
        failed = await events(rest, "POST", "/v2/scrape", {"url": site.url("/no", host)})
        assert [name for name, _, _ in failed] == ["queued", "done"]
        assert failed[1][2]["reason"] == "robots"
    refused = await rest.post("/v2/scrape", {"url": "file:///a"}, **STREAM)
    assert refused.status == 422


async def test_a_batch_is_answered_as_its_pages_come(
    cluster: Cluster, rest: RestProcess, tmp_path: Path
) -> None:
    """A stream that breaks continues at another process, without the pages that were seen."""
    paths = [f"/{n}" for n in range(8)]
    pages = {path: Answer(PAGE, after_s=2 if path == "/0" else 0) for path in paths}
    with site_of(pages) as (site, host):
        orders = [{"url": site.url(path, host), "formats": ["text"]} for path in [*paths, "/7"]]
        told = await events(rest, "POST", "/v2/scrape/batch", orders, most=4)
        (name, _, batch), *seen = told
        assert name == "batch"
        ids = {one["url"]: one["id"] for one in batch["scrapes"]}
        assert len(batch["scrapes"]) == 9
        assert len(set(ids.values())) == 8
        assert all("Twice a day." in data["text"] for _, _, data in seen)
        assert site.url("/0", host) not in [data["page"]["url"] for _, _, data in seen]
        async with another(cluster, tmp_path) as other:
            path = f"/v2/scrape/batch/{batch['id']}"
            rest_of = await events(other, "GET", f"{path}?formats=links", Last_Event_ID=seen[-1][1])
            *pages_left, (last, _, summary) = rest_of
            assert (last, summary) == ("end", {"pages": 8, "late": []})
            got = [data["page"]["url"] for _, _, data in [*seen, *pages_left]]
            assert sorted(got) == sorted(ids)
            states = (await other.get(path)).data
            assert states["complete"] is True
            assert {one["state"] for one in states["scrapes"]} == {"done"}
            page = await other.get(f"/v2/scrape/{ids[site.url('/3', host)]}")
            assert "# Tides" in page.data["markdown"]
        assert sorted(site.paths()) == paths


async def test_a_batch_tells_what_the_door_refuses(cluster: Cluster, rest: RestProcess) -> None:
    """Scrapes of a site that is blocked or too slow; with none admitted, it is a refusal.

    A site may have no request for a window after a restart of Redis, which other tests of this
    cluster kill: the first scrape of the slow site waits for longer than its window.
    """
    with site_of({"/a": Answer(PAGE), "/b": Answer(PAGE)}) as (site, host):
        await cluster.throttle("block", "127.77.252.1")
        await cluster.throttle("set", "127.77.253.1", "--hits", "1", "--window", "50")
        blocked, slow = site.url("/a", "127.77.252.1"), site.url("/a", "127.77.253.1")
        urls = [site.url("/a", host), blocked, slow, f"{slow}?again"]
        waits = [20, 20, 60, 5]
        orders = [{"url": url, "wait": wait} for url, wait in zip(urls, waits, strict=True)]
        answer = await rest.post("/v2/scrape/batch", orders)
        assert answer.status == 202, answer.body
        told = answer.data["scrapes"]
        states = [one["state"] for one in told]
        assert states == ["queued", "refused", "queued", "refused"], told
        assert [one.get("code") for one in told] == [None, "site_blocked", None, "site_busy"]
        assert 30 < told[3]["retry_after_s"] <= 100
        assert answer.headers["location"] == f"/v2/scrape/batch/{answer.data['id']}"
        none = await rest.post("/v2/scrape/batch", [{"url": blocked}])
        assert (none.status, none.error["code"]) == (409, "site_blocked")
        assert (await rest.get(f"/v2/scrape/{told[0]['id']}?wait=60")).status == 200
        again = await rest.post("/v2/scrape/batch", [{"url": urls[0], "max_age": 60}])
        assert (again.status, again.data["id"]) == (202, None)
        assert again.data["scrapes"] == [{"url": urls[0], "id": told[0]["id"], "state": "recent"}]
    wrong = await rest.post("/v2/scrape/batch", [{"url": "ftp://a/"}, {"url": "http://a/"}])
    assert (wrong.status, wrong.error["errors"][0][:3]) == (422, "[0]")
    assert (await rest.get("/v2/scrape/batch/none")).error["code"] == "no_such_scrape"


async def test_the_commands_of_the_guide_about_batches_work(rest: RestProcess) -> None:
    """Each line with curl in the section, for other pages and another port."""
    section = GUIDE[GUIDE.index("## Recent pages") : GUIDE.index("## URLs of a site")]
    commands = re.findall(r"```sh\n(curl.*?)```", section, re.DOTALL)
    assert len(commands) == 3
    with site_of({"/": Answer(PAGE), "/a": Answer(PAGE)}) as (site, host):
        printed = []
        for command in commands:
            line = command.replace("https://shop.example.com", site.url("", host).rstrip("/"))
            words = shlex.split(line.replace("localhost:5343", f"127.0.0.1:{rest.port}"))
            curl = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
            printed.append((await asyncio.wait_for(curl.communicate(), 60))[0].decode())
    recent, batch, stream = printed
    assert json.loads(recent)["data"]["state"] == "done"
    assert len(json.loads(batch)["data"]["scrapes"]) == 2
    assert stream.count("event: page") == 2
    assert stream.rstrip().rpartition("event: ")[2].startswith("end")
