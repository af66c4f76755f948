"""The endpoints of version 2 between real servers: requests take effect."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from kafka import KafkaProducer

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_cli.common.which import with_crawlers
from crawlstream_cli.crawls import read_crawls, show_crawls
from crawlstream_cli.rules.throttle import show_table
from support.monitors import MonitorCluster
from support.rest import RestProcess, odd_times, rest_beside_monitors
from support.waiting import WaitUntil

APP = "rest-app"


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service next to both monitors, without crawlers: seeds stay queued."""
    folder = tmp_path_factory.mktemp("rest")
    with rest_beside_monitors(cluster, folder, wait_s=50) as service:
        yield service


def seed(crawlid: str, number: int = 0, **fields: object) -> dict[str, Any]:
    """A seed that no crawler will fetch."""
    return {"appid": APP, "crawlid": crawlid, "url": f"http://127.0.0.1/{number}", **fields}


async def _state(rest: RestProcess, crawlid: str) -> Any:
    answer = await rest.get(f"/v2/crawl?appid={APP}&crawlid={crawlid}")
    return answer.data if answer.status == 200 else None


async def test_seeds_come_in_four_shapes(rest: RestProcess, wait_until: WaitUntil) -> None:
    """An object, a list, lines and a table feed the same crawl."""
    one = await rest.post("/v2/crawls", seed("shapes", 1))
    crawls = [{"spiderid": "link", "appid": APP, "crawlid": "shapes"}]
    assert (one.status, one.data["fed"], one.data["crawls"]) == (202, 1, crawls)
    assert (await rest.post("/v2/crawls", [seed("shapes", 2), seed("shapes", 3)])).status == 202
    lines = b"".join(json.dumps(seed("shapes", number)).encode() + b"\n\n" for number in (4, 5))
    answer = await rest.post("/v2/crawls", lines, Content_Type="application/x-ndjson")
    assert answer.data["fed"] == 2
    table = (
        "url,appid,crawlid,maxdepth,allowed_domains,attrs\r\n"
        f'http://127.0.0.1/6,{APP},shapes,2,127.0.0.1 localhost,"{{""a"": 1}}"\r\n'
        f"http://127.0.0.1/7,{APP},shapes,,,\r\n"
    )
    answer = await rest.post("/v2/crawls", table.encode(), Content_Type="text/csv; charset=utf-8")
    assert answer.data["fed"] == 2

    async def all_wait() -> bool:
        state = await _state(rest, "shapes")
        return bool(state) and state["admitted"] == 7

    await wait_until(all_wait)
    state = await _state(rest, "shapes")
    assert (state["residual"], state["state"], state["run"]) == (0, "running", 1)
    assert [domain["domain"] for domain in state["domains"]] == ["127.0.0.1"]


async def test_a_crawl_is_repeated_as_it_was_fed(rest: RestProcess, wait_until: WaitUntil) -> None:
    """The form has its URLs and fields out of Kafka; of one that is unknown there is none."""
    fed = [seed("again", number, maxdepth=3, headers={"A": "b"}) for number in range(2)]
    assert (await rest.post("/v2/crawls", [*fed, seed("another", 7)])).data["fed"] == 3
    path = f"/ui/submit?appid={APP}&crawlid=again"

    async def is_known() -> bool:
        return (await rest.get(path)).status == 200

    await wait_until(is_known)
    page = (await rest.get(path)).body.decode()
    assert ">http://127.0.0.1/0\nhttp://127.0.0.1/1</textarea>" in page
    assert ">A: b</textarea>" in page
    assert 'name="maxdepth" type="number" min="0" value="3"' in page
    assert (await rest.get(path.replace("again", "never"))).status == 404


async def test_a_check_tells_how_long_it_takes(rest: RestProcess) -> None:
    """Estimates the time of a crawl by the rules of its sites, if there are any."""
    told = (await rest.post("/v2/check", [seed("slow", number) for number in range(3)])).data
    assert (told["good"], told["pages"], told["sites"][0]["site"]) == (3, 3, "127.0.0.1")
    assert told["seconds"] == pytest.approx(3 * told["sites"][0]["seconds_per_page"], abs=0.01)


async def test_one_bad_seed_keeps_all_out(rest: RestProcess) -> None:
    """Feeds nothing unless all seeds are valid; each problem names its seed and field."""
    seeds = [seed("bad"), seed("bad", url="ftp://x"), seed("bad", maxdepth="deep")]
    for path in ("/v2/crawls", "/v2/check"):
        answer = await rest.post(path, seeds)
        assert (answer.status, answer.error["code"]) == (422, "bad_request")
        told = answer.error["errors"]
        assert [problem.partition(":")[0] for problem in told] == ["seed 2", "seed 3"]
        assert "$.maxdepth" in told[1]
    assert (await rest.post("/v2/check", seed("bad"))).data["good"] == 1
    typed = seed("bad", url="notaurl")
    absent, warning = (await rest.post("/v2/check", typed)).data["warnings"]
    assert warning == "notaurl: a host name without a dot; no such top-level domain"
    assert absent.startswith("No crawler of spider link is running (running: ")
    assert await _state(rest, "bad") is None


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"[]", 422),
        ("application/json", b"[" + b"{}," * 10_000 + b"{}]", 422),
        ("application/json", b"{", 400),
        ("application/x-ndjson", b"", 422),
        ("application/x-ndjson", b"{]", 422),
        ("text/csv", b"url\n\xff", 400),
        ("text/csv", b'url\n"x', 400),
        ("text/csv", b"url\na,b", 400),
        ("text/html", b"<a>", 415),
        ("application/json", b'{"action": "stop"}', 422),
    ],
)
async def test_bodies_that_are_no_seeds_are_refused(
    rest: RestProcess, kind: str, body: bytes, status: int
) -> None:
    """Refuses any other bytes in the usual form."""
    answer = await rest.post("/v2/crawls", body, Content_Type=kind)
    assert answer.status == status
    assert answer.error["message"]


async def test_a_key_makes_a_repetition_harmless(rest: RestProcess, wait_until: WaitUntil) -> None:
    """A repeated request under the same key is fed once; another body under it is refused."""
    key = {"Idempotency_Key": "once"}
    tries = [rest.post("/v2/crawls", seed("once"), **key) for _ in range(5)]
    assert {answer.body for answer in await asyncio.gather(*tries)} == {
        (await rest.post("/v2/crawls", seed("once"), **key)).body
    }
    other = await rest.post("/v2/crawls", seed("other"), **key)
    assert (other.status, other.error["code"]) == (422, "key_reused")
    await rest.post("/v2/crawls", seed("once", 1))

    async def second_came() -> bool:
        state = await _state(rest, "once")
        return bool(state) and state["admitted"] >= 2

    await wait_until(second_came)
    assert (await _state(rest, "once"))["admitted"] == 2


async def test_a_crawl_is_steered_by_hand(rest: RestProcess) -> None:
    """Pause, resume, reprioritize and stop are answered by their effect."""
    await rest.post("/v2/crawls", seed("steered"))
    target = {"appid": APP, "crawlid": "steered"}

    async def steer(verb: str, **fields: object) -> Any:
        return (await rest.post(f"/v2/crawl/{verb}", {**target, **fields})).data

    assert (await steer("pause"))["action"] == "pause"
    assert (await _state(rest, "steered"))["state"] == "paused"
    assert (await _state(rest, "steered"))["held_back"] == {"paused": 1}
    await steer("resume")
    assert (await steer("reprioritize", priority=50))["priority"] == 50
    (domain,) = (await _state(rest, "steered"))["domains"]
    assert domain["high_priority"] == 50
    assert (await steer("stop"))["action"] == "stop"
    listed = await rest.get(f"/v2/crawls?appid={APP}&state=stopped")
    assert [crawl["crawlid"] for crawl in listed.data["crawls"]] == ["steered"]

    unknown = await rest.post("/v2/crawl/pause", {"appid": APP, "crawlid": "nobody"})
    assert (unknown.status, unknown.error["code"]) == (404, "unknown_crawl")
    assert (await rest.post("/v2/crawl/explode", target)).status == 404
    assert (await rest.post("/v2/crawl/reprioritize", target)).status == 422
    assert (await rest.post("/v2/crawl/stop", {**target, "more": 1})).status == 422
    assert (await rest.get("/v2/crawl?appid=x&crawlid=y")).status == 404


async def test_rules_are_edited(rest: RestProcess) -> None:
    """A rule that was set is read back, block and unblock included; nonsense is refused."""
    path = "/v2/throttle/rules/example.com"
    table = (await rest.call("PUT", path, {"hits": 3, "window": 1.5, "concurrency": 2})).data
    rule = ThrottleRule(hits=3, window_s=1.5, concurrency=2)
    assert table["domains"]["example.com"] == rule.named()
    assert table["set"] == {"example.com": rule.named()}
    await rest.call("PUT", "/v2/throttle/blacklist/evil.test")
    assert (await rest.get("/v2/throttle")).data["blacklist"] == ["evil.test"]
    await rest.call("DELETE", "/v2/throttle/blacklist/evil.test")
    table = (await rest.call("DELETE", path)).data
    assert (table["domains"], table["blacklist"]) == ({}, [])
    for wrong in ({"hits": -1}, {"window": 0}, {"burst": 1}, {}):
        answer = await rest.call("PUT", path, wrong)
        assert answer.status == 422, wrong
    assert (await rest.call("DELETE", "/v2/throttle/rules/default")).status == 422


async def test_changes_of_a_rule_are_told(
    rest: RestProcess, cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """The screen of a domain shows when its rule was changed, from what to what, and by whom."""
    path = "/v2/throttle/rules/told.test"
    screen = "/ui/domains?name=told.test"
    settings = cluster.settings()
    editor = ThrottleEditor(
        settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
    )
    await rest.call("PUT", path, {"hits": 4, "window": 1})

    async def reads(*texts: str) -> bool:
        page = (await rest.get(screen, Accept="text/html")).body.decode()
        return all(text in page for text in texts)

    await wait_until(lambda: reads("Latest changes of this rule", "<td>127.0.0.1</td>"))
    # A repetition changes nothing, and a change by another tool does not belong to this client.
    await rest.call("PUT", path, {"hits": 4})
    await editor.set_rule("told.test", hits=9)
    await wait_until(lambda: reads("<td>9 per 1 s", "<td>unknown</td>"))
    page = (await rest.get(screen, Accept="text/html")).body.decode()
    assert page.count("<td>127.0.0.1</td>") == 1
    await rest.call("DELETE", path)


async def test_commands_and_rest_show_the_same(
    rest: RestProcess, cluster: MonitorCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that reads ``crawls --json`` or ``throttle get --json`` understands REST, too."""
    await rest.post("/v2/crawls", seed("alike"))
    await rest.post("/v2/crawl/pause", {"appid": APP, "crawlid": "alike"})
    await rest.call("PUT", "/v2/throttle/rules/alike.com", {"hits": 3, "window": 1.5})
    settings = cluster.settings()
    found, spiders = await with_crawlers(settings, await read_crawls(settings, appid=APP))
    rules = ThrottleEditor(
        settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
    )
    show_crawls(found, spiders, as_json=True)
    show_table(await rules.read(), as_json=True)
    crawls, table = map(json.loads, capsys.readouterr().out.splitlines())
    assert "alike" in {one["crawlid"] for one in crawls}
    assert crawls == (await rest.get(f"/v2/crawls?appid={APP}&limit=1000")).data["crawls"]
    assert table == (await rest.get("/v2/throttle")).data
    show_table(await rules.read(), "www.alike.com", as_json=True)
    assert json.loads(capsys.readouterr().out)["domains"] == {
        "www.alike.com": table["domains"]["alike.com"]
    }
    await rest.call("DELETE", "/v2/throttle/rules/alike.com")
    await rest.post("/v2/crawl/stop", {"appid": APP, "crawlid": "alike"})


async def test_the_cluster_tells_of_itself(rest: RestProcess, wait_until: WaitUntil) -> None:
    """Processes by kind, the frontier's counters, and a description of every route."""

    async def all_beat() -> bool:
        kinds = {process["kind"] for process in (await rest.get("/v2/processes")).data}
        return kinds == {"rest", "redis-monitor", "kafka-monitor"}

    await wait_until(all_beat)
    assert (await rest.get("/v2/state")).data["workers"] == 0
    described = (await rest.get("/v2/openapi.json")).value
    assert {"/feed", "/poll", "/v2/crawls", "/v2/{name}/stream"} <= set(described["paths"])
    of_crawl = f"?appid={APP}&crawlid=shapes"
    routes = [path for path, methods in described["paths"].items() if "get" in methods]
    found = {}
    for path in routes:
        if path.startswith("/v2/") and not path.endswith(("stream", "export", ".json")):
            wanted = of_crawl if path.startswith("/v2/crawl") and path != "/v2/crawls" else ""
            answer = await rest.get(path.format_map(defaultdict(lambda: "results")) + wanted)
            found[path] = answer.value["data"]
    assert not [odd for path, data in found.items() for odd in odd_times(data, path)]
    assert sum(data is not None for data in found.values()) > 10


async def test_the_reference_has_every_operation(rest: RestProcess) -> None:
    """A page for people, whole without scripts: each path, its arguments, examples to copy."""
    answer = await rest.get("/docs", Accept="text/html")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    page = unescape(answer.body.decode())
    described = (await rest.get("/v2/openapi.json")).value
    for path, methods in described["paths"].items():
        for method, told in methods.items():
            assert f"<strong>{method.upper()}</strong> {path}<" in page
            assert f">{told['summary']}</h2>" in page
            assert all(f"<code>{one['name']}</code>" in page for one in told.get("parameters", ()))
    assert '"crawlid":"spring-1"' in page
    assert "at most 1,000." in page


async def test_paths_that_people_try_lead_somewhere(rest: RestProcess) -> None:
    """The usual names of a reference, and screens without their prefix; a query goes along."""
    ways = {
        "/redoc": "/docs",
        "/v2/docs": "/docs",
        "/openapi.json": "/v2/openapi.json",
        "/crawls": "/ui/crawls",
        "/processes": "/ui/processes",
        "/ui": "/",
        "/crawls?appid=x%26y": "/ui/crawls?appid=x%26y",
    }
    for path, target in ways.items():
        answer = await rest.get(path)
        assert (answer.status, answer.headers["location"]) == (307, target)
        assert (await rest.get(target)).status == 200
    assert (await rest.post("/crawls", {})).status == 404
    assert (await rest.get("/crawl")).status == 404
    screen = await rest.get("/ui/nothing", Accept="text/html")
    assert (screen.status, screen.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no such page." in screen.body.decode()


def _publish(cluster: MonitorCluster, topic: str, *records: dict[str, Any]) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
    for record in records:
        producer.send(topic, json.dumps(record).encode(), key=b"key")
    producer.flush(60)
    producer.close()


async def test_results_are_paged(rest: RestProcess, cluster: MonitorCluster) -> None:
    """Pages of one crawl's results follow each other without a gap; bodies come on demand."""
    records = [
        {"appid": APP, "crawlid": "paged" if n % 2 else "else", "url": str(n), "body": "x"}
        for n in range(10)
    ]
    await asyncio.to_thread(_publish, cluster, cluster.topics.crawled, *records)
    urls, cursor = [], ""
    while True:
        answer = await rest.get(f"/v2/results?crawlid=paged&limit=2{cursor}")
        urls += [record["value"]["url"] for record in answer.data["records"]]
        assert not any("body" in record["value"] for record in answer.data["records"])
        if answer.data["at_end"]:
            break
        cursor = f"&cursor={answer.data['cursor']}"
    assert urls == ["1", "3", "5", "7", "9"]
    after = await rest.get(f"/v2/results?bodies=true&cursor={answer.data['cursor']}")
    assert (after.data["records"], after.data["at_end"]) == ([], True)
    (latest,) = (await rest.get("/v2/results?limit=1&bodies=true")).data["records"]
    assert (latest["value"]["url"], latest["value"]["body"]) == ("9", "x")
    assert (await rest.get("/v2/results?cursor=x")).status == 422
    assert (await rest.get("/v2/nothing")).status == 404


async def test_rejected_records_are_listed(rest: RestProcess, wait_until: WaitUntil) -> None:
    """A record that took no effect is found with its reason and its bytes."""
    await rest.post("/feed", {"appid": APP, "nonsense": 1})

    async def rejected() -> Any:
        records = (await rest.get("/v2/rejected")).data["records"]
        raws = [base64.b64decode(record["value"]["raw"]) for record in records]
        return any(b"nonsense" in raw for raw in raws)

    await wait_until(rejected)


async def test_rejected_records_are_told_apart_by_reason(
    rest: RestProcess, wait_until: WaitUntil
) -> None:
    """The screen counts them by reason, and shows those of one."""
    await rest.post("/feed", seed("apart", allow_regex=["("]))
    await rest.post("/feed", {"appid": APP, "nonsense": 2})

    async def are_there() -> bool:
        page = (await rest.get("/ui/rejected")).body.decode()
        return "?reason=bad_regex" in page and "?reason=bad_request" in page

    await wait_until(are_there)
    page = (await rest.get("/ui/rejected?reason=bad_regex")).body.decode()
    assert "<strong>bad_regex " in page
    assert '<td class="short">bad_regex</td>' in page
    assert '<td class="short">bad_request</td>' not in page


async def test_a_rejected_record_gets_a_second_chance(
    rest: RestProcess, wait_until: WaitUntil
) -> None:
    """A record fed again is judged again, with the same bytes; a missing one is named."""
    await rest.post("/feed", {"appid": APP, "crawlid": "again"})

    async def rejections() -> list[Any]:
        records = (await rest.get("/v2/rejected?limit=1000")).data["records"]
        return [one for one in records if b"again" in base64.b64decode(one["value"]["raw"])]

    (first,) = await wait_until(rejections)
    place = {"partition": first["partition"], "offset": first["offset"]}
    answer = await rest.post("/v2/rejected/replay", {"records": [place]})
    assert answer.data == {"replayed": 1, "without_bytes": 0}

    async def is_rejected_again() -> bool:
        return len(await rejections()) == 2

    await wait_until(is_rejected_again)
    one, other = await rejections()
    assert one["value"]["raw"] == other["value"]["raw"]
    missing = await rest.post("/v2/rejected/replay", {"records": [{**place, "offset": 10**9}]})
    assert (missing.status, missing.error["code"]) == (404, "no_record")
    assert (await rest.post("/v2/rejected/replay", {"records": []})).status == 422
    shown = await rest.get(f"/ui/rejected/one?partition={place['partition']}&offset=9999", **HTML)
    assert shown.status == 404


async def test_everything_of_a_crawl_is_exported(
    rest: RestProcess, cluster: MonitorCluster
) -> None:
    """Exports JSON lines with every field, and a table without formulas."""
    records = [
        {"appid": APP, "crawlid": "file" if n < 300 else "else", "url": f"=cmd|{n}", "body": "x"}
        for n in range(310)
    ]
    await asyncio.to_thread(_publish, cluster, cluster.topics.crawled, *records)
    path = f"/v2/results/export?appid={APP}&crawlid=file"
    lines = (await rest.get(f"{path}&bodies=true")).body.splitlines()
    assert [json.loads(line) for line in lines] == records[:300]
    table = await rest.get(f"{path}&format=csv")
    assert table.headers["content-disposition"] == 'attachment; filename="results.csv"'
    rows = list(csv.DictReader(io.StringIO(table.body.decode(), newline="")))
    assert [row["url"] for row in rows] == [f"'=cmd|{n}" for n in range(300)]


async def test_domains_are_told_of(rest: RestProcess) -> None:
    """A domain has a rule, a source of it, and a time of its next request."""
    told = (await rest.get("/v2/domains/Unknown.Example.COM")).data
    assert (told["domain"], told["source"], told["next_ms"]) == ("example.com", "default", 0)
    assert (await rest.get("/v2/domains")).data == {}


async def test_a_host_with_a_rule_of_its_own_is_told_of(
    rest: RestProcess, wait_until: WaitUntil
) -> None:
    """Its site is the host, however it is written in the rule and in the question."""
    assert (await rest.get("/v2/domains/shop.apart.com")).data["domain"] == "apart.com"
    await rest.call("PUT", "/v2/throttle/rules/Shop.Apart.COM.", {"hits": 4, "window": 1})

    async def is_told() -> bool:
        told = (await rest.get("/v2/domains/SHOP.apart.com.")).data
        return (told["domain"], told["source"]) == ("shop.apart.com", "own")

    await wait_until(is_told)
    refused = await rest.call("PUT", "/v2/throttle/rules/a%20b.com", {"hits": 4, "window": 1})
    assert refused.status == 422
    assert "is not a valid host name" in refused.body.decode()
    await rest.call("DELETE", "/v2/throttle/rules/shop.apart.com")


async def test_a_screen_tells_what_has_changed(rest: RestProcess) -> None:
    """A client of a screen's events gets its live part at once, and whenever it changes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", rest.port)
    accept = "Accept: text/event-stream"
    writer.write(f"GET / HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n\r\n".encode())
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"text/event-stream" in head
        while b"event: live" not in await reader.readline():
            pass
        await rest.post("/v2/crawls", seed("moving"))
        while b"moving" not in await reader.readline():
            pass
        while b"event: series" not in await reader.readline():
            pass
    writer.close()
    unknown = await rest.get("/ui/crawl?appid=x&crawlid=y", Accept="text/event-stream")
    assert unknown.status == 404


async def test_events_are_streamed(rest: RestProcess, cluster: MonitorCluster) -> None:
    """Events come as they happen, and a client that lost its connection goes on where it was."""
    first = await _streamed(rest, cluster, count=1, begin=None)
    again = await _streamed(rest, cluster, count=2, begin=first[-1][0])
    assert [json.loads(data)["value"]["id"] for _, data in first + again] == ["0", "0", "1"]


async def _streamed(
    rest: RestProcess, cluster: MonitorCluster, *, count: int, begin: str | None
) -> list[tuple[str, str]]:
    """(id, data) of the events of a stream, which are published once it is connected."""
    reader, writer = await asyncio.open_connection("127.0.0.1", rest.port)
    resume = f"Last-Event-ID: {begin}\r\n" if begin else ""
    path = "/v2/events/stream?event=page_failed"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{resume}\r\n".encode())
    async with asyncio.timeout(60):
        while b": connected" not in await reader.readline():
            pass
        events = [
            {"event": "page_failed", "appid": APP, "crawlid": "s", "id": str(number)}
            for number in range(count)
        ]
        await asyncio.to_thread(_publish, cluster, cluster.topics.events, *events)
        found: list[tuple[str, str]] = []
        name = ""
        while len(found) < count:
            line = (await reader.readline()).decode().strip()
            if line.startswith("id: "):
                name = line[4:]
            elif line.startswith("data: "):
                found.append((name, line[6:]))
    writer.close()
    return found


HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def test_browsers_see_pages(rest: RestProcess, wait_until: WaitUntil) -> None:
    """Every screen is shown with the cluster's data; programs still get JSON."""
    await rest.post("/v2/crawls", seed("<b>shown</b>"))

    async def is_shown() -> bool:
        return b"&lt;b&gt;shown&lt;/b&gt;" in (await rest.get("/", **HTML)).body

    await wait_until(is_shown)
    name = "%3Cb%3Eshown%3C%2Fb%3E"
    for path, text in {
        "/": b"redis-monitor",
        "/ui/crawls?state=running": b"&lt;b&gt;shown&lt;/b&gt;",
        f"/ui/crawl?appid={APP}&crawlid={name}": b"127.0.0.1",
        f"/ui/crawl/failures?appid={APP}&crawlid={name}": b"No page of this crawl has failed.",
        f"/ui/crawl/pages?appid={APP}&crawlid={name}": b"No page has been delivered yet.",
        "/ui/processes": b"kafka-monitor",
        "/ui/domains": b"default",
        "/ui/rejected": b"Rejected",
        "/ui/submit": b'name="urls"',
    }.items():
        page = await rest.get(path, **HTML)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert text in page.body, path
        assert "default-src 'self'" in page.headers["content-security-policy"]
    assert (await rest.get("/ui/crawl?appid=x&crawlid=y", **HTML)).status == 404
    for name in ("live.js", "charts.js", "style.css", "icon.svg", "uplot/uPlot.iife.min.js"):
        assert (await rest.get(f"/static/{name}")).status == 200
    assert (await rest.get("/static/../pages.py")).status == 404
    assert "my_id" in (await rest.get("/", Accept="application/json, text/html")).value
