"""Keys of a real service: what those of an application reach, what is hidden, what is logged."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from kafka import KafkaProducer

from crawlstream.signing import directory
from crawlstream.signing.keys import new_key
from crawlstream.signing.signer import DIRECTORY_PATH
from support.browser import chromium
from support.monitors import MonitorCluster
from support.rest import RestProcess, rest_beside_monitors
from support.waiting import WaitUntil
from unit.rest.test_access import _routes

SHOP, NEWS, PLANS = "keys-shop", "keys-news", "keys-plans"
SECRETS = {name: name[0] * 20 for name in ("all", "reader", "shop", "quota", "boss", "planner")}
FORMS = {
    "all": "operate/name=all",
    "reader": "read",
    "shop": f"submit@{SHOP}/name=shop-keeper",
    "quota": f"submit@{NEWS}/name=small/waiting=2/rate=50",
    "boss": f"operate@{SHOP}/name=boss",
    "planner": f"operate@{PLANS}/name=planner/waiting=2/schedules=1/rate=50",
}
HTML = {"Accept": "text/html"}


class Keyed(NamedTuple):
    """A service, asked with one key."""

    rest: RestProcess
    folder: Path

    async def ask(self, key: str, method: str, path: str, body: Any = None, **more: str) -> Any:
        """Send a request."""
        return await self.rest.call(method, path, body, X_API_Key=SECRETS[key], **more)

    async def status(self, key: str, method: str, path: str, body: Any = None) -> int:
        """How it is answered."""
        return int((await self.ask(key, method, path, body)).status)


@pytest.fixture(scope="module")
def keyed(cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """A service with keys of all kinds, next to both monitors."""
    keys = ",".join(f"{form}:{SECRETS[name]}" for name, form in FORMS.items())
    folder = tmp_path_factory.mktemp("keyed")
    env = {
        "CRAWLSTREAM_API_KEYS": keys,
        "CRAWLSTREAM_SIGNATURE_AGENT": "https://bot.example",
        "CRAWLSTREAM_SIGNING_DIRECTORY": str(folder / "directory.json"),
    }
    with rest_beside_monitors(cluster, folder, wait_s=20, **env) as rest:
        yield Keyed(rest, folder)


def _seed(appid: str, crawlid: str, number: int = 0) -> dict[str, Any]:
    return {"appid": appid, "crawlid": crawlid, "url": f"http://127.0.0.1/{number}"}


def _target(appid: str, crawlid: str) -> dict[str, str]:
    return {"appid": appid, "crawlid": crawlid, "spiderid": "link"}


async def _until_known(keyed: Keyed, wait_until: WaitUntil, *crawls: tuple[str, str]) -> None:
    async def are_known() -> bool:
        paths = [f"/v2/crawl?appid={appid}&crawlid={crawlid}" for appid, crawlid in crawls]
        return all([await keyed.status("all", "GET", path) == 200 for path in paths])

    await wait_until(are_known)


async def test_a_key_reaches_the_crawls_of_its_application_only(
    keyed: Keyed, wait_until: WaitUntil
) -> None:
    """It feeds, lists, sees, inspects and steers these; it gets nothing of others."""
    own, foreign = _seed(SHOP, "own"), _seed(NEWS, "foreign")
    assert await keyed.status("all", "POST", "/v2/crawls", [own, foreign]) == 202
    await _until_known(keyed, wait_until, (SHOP, "own"), (NEWS, "foreign"))
    for path in ("/v2/crawls", "/v2/check", "/feed"):
        assert await keyed.status("shop", "POST", path, own) in {200, 202}
        refused = await keyed.ask("shop", "POST", path, foreign)
        assert (refused.status, refused.error["code"]) == (403, "forbidden_appid")
    assert await keyed.status("shop", "POST", "/v2/crawls", [own, foreign]) == 403
    listed = (await keyed.ask("shop", "GET", "/v2/crawls")).data
    assert {one["appid"] for one in listed["crawls"]} == {SHOP}
    assert await keyed.status("shop", "GET", f"/v2/crawls?appid={NEWS}") == 403
    for path in ("/v2/crawl", "/ui/crawl", "/ui/crawl/pages", "/ui/crawl/failures"):
        assert await keyed.status("shop", "GET", f"{path}?appid={SHOP}&crawlid=own") == 200
        assert await keyed.status("shop", "GET", f"{path}?appid={NEWS}&crawlid=foreign") == 403

    async def is_shown() -> bool:
        shown = (await keyed.ask("shop", "GET", "/ui/crawls", **HTML)).body
        assert b"foreign" not in shown
        return b"crawlid=own" in shown

    await wait_until(is_shown)
    info = {"action": "info", "uuid": uuid4().hex, "appid": SHOP, "spiderid": "link"}
    assert "own" in (await keyed.ask("shop", "POST", "/feed", info)).data["crawlids"]
    assert await keyed.status("shop", "POST", "/feed", {**info, "appid": NEWS}) == 403
    for path, body in (("/v2/crawl/pause", _target(NEWS, "foreign")), ("/feed", _rule())):
        assert await keyed.status("boss", "POST", path, body) == 403
    assert await keyed.status("boss", "POST", "/v2/crawl/pause", _target(SHOP, "own")) == 200
    assert await keyed.status("shop", "POST", "/v2/crawl/pause", _target(SHOP, "own")) == 403


def _rule() -> dict[str, Any]:
    return {
        "action": "domain-update",
        "domain": "example.com",
        "hits": 1,
        "window": 1,
        "scale": 1,
        "appid": SHOP,
        "uuid": uuid4().hex,
    }


async def test_replies_of_others_cannot_be_polled(
    keyed: Keyed, cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """A client that guesses a uuid gets no reply of another application, nor takes it away."""
    uuid = uuid4().hex
    reply = {"uuid": uuid, "appid": NEWS, "secret": True}
    await asyncio.to_thread(_publish, cluster, cluster.topics.outbound, reply)
    await asyncio.to_thread(
        _publish, cluster, cluster.topics.outbound, {"uuid": f"{uuid}-", "appid": SHOP}
    )

    async def has_come() -> bool:
        return await keyed.status("shop", "POST", "/poll", {"poll_id": f"{uuid}-"}) == 200

    await wait_until(has_come)
    assert await keyed.status("shop", "POST", "/poll", {"poll_id": uuid}) == 404
    assert (await keyed.ask("all", "POST", "/poll", {"poll_id": uuid})).data == reply


async def test_records_are_those_of_the_application_and_without_secrets(
    keyed: Keyed, cluster: MonitorCluster
) -> None:
    """A bound key sees only its own pages, files and screens, and no key below operate a cookie."""
    records = [
        {
            **_target(appid, "records"),
            "url": f"http://{appid}.test/",
            "request_headers": {"Cookie": ["very=secret"], "Accept": ["*/*"]},
            "response_headers": {"Set-Cookie": ["very=secret"]},
        }
        for appid in (SHOP, NEWS)
    ]
    await asyncio.to_thread(_publish, cluster, cluster.topics.crawled, *records)
    for path in ("/v2/results", "/v2/results/export", "/v2/results?crawlid=records"):
        for key in ("shop", "reader", "all"):
            body = (await keyed.ask(key, "GET", path)).body
            assert (NEWS.encode() in body) == (key != "shop"), (path, key)
            assert (b"very=secret" in body) == (key == "all"), (path, key)
            assert b"*/*" in body
    found = (await keyed.ask("all", "GET", "/v2/results?crawlid=records")).data["records"]
    for record in found:
        place = f"/ui/page?partition={record['partition']}&offset={record['offset']}"
        is_own = record["value"]["appid"] == SHOP
        assert await keyed.status("shop", "GET", place) == (200 if is_own else 404)
        assert b"very=secret" not in (await keyed.ask("reader", "GET", place)).body
    assert await keyed.status("shop", "GET", f"/v2/results?appid={NEWS}") == 403


async def test_what_was_rejected_is_shown_whole_to_operators_only(
    keyed: Keyed, wait_until: WaitUntil
) -> None:
    """Its reason is for everybody whose it is, its text and a second chance for operators."""
    for appid in (SHOP, NEWS):
        bad = {"appid": appid, "crawlid": "bad", "cookie": "very=secret"}
        assert await keyed.status("all", "POST", "/feed", bad) == 200

    async def rejected(key: str) -> Any:
        return (await keyed.ask(key, "GET", "/v2/rejected?limit=1000")).data["records"]

    async def both_are_there() -> Any:
        found = await rejected("all")
        return found if len(found) >= 2 else None

    places = [(one["partition"], one["offset"]) for one in await wait_until(both_are_there)]
    assert len(await rejected("boss")) == len(await rejected("shop")) < len(places)
    for one in await rejected("reader"):
        assert (one["value"]["raw"], one["value"]["raw_hidden"]) == (None, True)
    own = [(one["partition"], one["offset"]) for one in await rejected("boss")]
    for partition, offset in places:
        replay = {"records": [{"partition": partition, "offset": offset}]}
        is_own = (partition, offset) in own
        expected = 200 if is_own else 403
        assert await keyed.status("boss", "POST", "/v2/rejected/replay", replay) == expected
        screen = f"/ui/rejected/one?partition={partition}&offset={offset}"
        assert b"very=secret" in (await keyed.ask("all", "GET", screen)).body
        reader = (await keyed.ask("reader", "GET", screen)).body
        assert (b"very=secret" in reader, b"role operate" in reader) == (False, True)


PLANTED = [f"planted-{place}-{number}" for place in "cs" for number in range(3)]


def _secret_request(place: str) -> dict[str, Any]:
    one, two, three = (name for name in PLANTED if name.startswith(f"planted-{place}"))
    return {"cookie": one, "headers": {"Authorization": two}, "method": "POST", "body": three}


async def test_no_route_shows_secrets_below_operate(keyed: Keyed) -> None:
    """Every GET route of the application, with the secrets of a schedule and its seeds."""
    path = f"/v2/schedules/{SHOP}/secretive"
    seed = {"url": "http://127.0.0.1/", **_secret_request("s")}
    crawl = {"crawlid": "secretive", **_secret_request("c")}
    told = {"cron": "0 0 29 2 *", "crawl": crawl, "seeds": [seed]}
    answer = await keyed.ask("all", "PUT", path, told)
    assert answer.status == 200, answer.body
    shown = (await keyed.ask("all", "GET", path)).body
    assert all(secret.encode() in shown for secret in PLANTED)
    query = f"appid={SHOP}&crawlid=secretive&spiderid=link&url=http://127.0.0.1/"
    for route in sorted(name for name in _routes() if name.startswith("GET ")):
        template = route.removeprefix("GET ").replace("{appid}", SHOP)
        if template.endswith("/stream"):
            # It never ends; it shows what the page of the same records shows.
            continue
        names = ["secretive"] if "schedules" in template else ["results", "events", "rejected"]
        for at in {template.replace("{name}", name) for name in names}:
            for asked in (at, f"{at}?{query}", f"{at}?appid={SHOP}"):
                for key in ("reader", "shop"):
                    for kind in ({}, HTML):
                        answer = await keyed.ask(key, "GET", asked, **kind)
                        assert not [one for one in PLANTED if one.encode() in answer.body], asked


async def test_a_key_has_no_more_waiting_than_its_quota(
    keyed: Keyed, wait_until: WaitUntil
) -> None:
    """Requests beyond it are refused for now, by whichever way they are fed."""
    target = _target(NEWS, "foreign")
    await keyed.ask("all", "POST", "/v2/crawl/stop", target)

    async def two_fit() -> bool:
        pair = [_seed(NEWS, "few", number) for number in (1, 2)]
        return await keyed.status("quota", "POST", "/v2/crawls", pair) == 202

    await wait_until(two_fit)
    for path in ("/v2/crawls", "/feed"):
        refused = await keyed.ask("quota", "POST", path, _seed(NEWS, "few", 3))
        assert (refused.status, refused.error["code"]) == (429, "too_many_waiting")
        assert refused.headers["retry-after"] == "1"


async def test_schedules_count_against_the_quota_of_a_key(keyed: Keyed) -> None:
    """Setting, resuming and firing one whose seeds exceed it is refused, as feeding them is.

    So is another schedule where the key has as many as it may have.
    """
    path = f"/v2/schedules/{PLANS}/many"

    def seeds(count: int) -> list[dict[str, str]]:
        return [{"url": f"http://127.0.0.1/{number}"} for number in range(count)]

    yearly = {"cron": "0 0 29 2 *", "crawl": {"crawlid": "many"}}
    many = {**yearly, "seeds": seeds(3)}
    assert await keyed.status("all", "PUT", path, many) == 200
    assert await keyed.status("all", "POST", f"{path}/pause") == 200
    for method, at, body in (
        ("PUT", path, many),
        ("POST", f"{path}/resume", None),
        ("POST", f"{path}/fire", None),
    ):
        refused = await keyed.ask("planner", method, at, body)
        assert (refused.status, refused.error["code"]) == (429, "too_many_waiting"), at
    few = {**yearly, "seeds": seeds(2)}
    assert await keyed.status("planner", "PUT", path, few) == 200
    another = await keyed.ask("planner", "PUT", f"{path}-more", few)
    assert (another.status, another.error["code"]) == (409, "too_many_schedules")


async def test_every_route_answers_head_as_get(keyed: Keyed) -> None:
    """The status and headers are those of GET, without a body; a stream ends at its headers."""
    for path in ("/", "/health/live", "/v2/crawls", "/ui/submit", "/v2/nothing", "/static/live.js"):
        get = await keyed.ask("all", "GET", path)
        head = await keyed.ask("all", "HEAD", path)
        assert (head.status, head.body) == (get.status, b""), path
        for name in ("content-type", "content-length"):
            assert head.headers.get(name) == get.headers.get(name) or path == "/", path
    async with asyncio.timeout(20):
        for path in ("/v2/events/stream", "/v2/results/export"):
            assert await keyed.status("all", "HEAD", path) == 200
        assert (await keyed.ask("all", "HEAD", "/", Accept="text/event-stream")).status == 200
    assert await keyed.status("all", "HEAD", "/feed") == 404


async def test_verifiers_need_no_key_for_the_directory(keyed: Keyed) -> None:
    """Serves the directory without a key: 304 if unchanged, 503 while it cannot be read."""
    file = keyed.folder / "directory.json"
    assert (await keyed.rest.get(DIRECTORY_PATH)).status == 503
    signing = new_key(keyed.folder / "key.pem")
    made = directory.made([signing], "https://bot.example", now=int(time.time()), days=30)
    directory.write(made, file)
    found = await keyed.rest.get(DIRECTORY_PATH)
    assert (found.status, found.body) == (200, made.body.encode())
    for name, value in made.headers.items():
        assert found.headers[name.lower()] == value
    tag = found.headers["etag"]
    again = await keyed.rest.call("GET", DIRECTORY_PATH, None, If_None_Match=tag)
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    directory.write(replace(made, expires=made.expires + 1), file)
    assert (await keyed.rest.call("GET", DIRECTORY_PATH, None, If_None_Match=tag)).status == 200
    metrics = (await keyed.ask("all", "GET", "/metrics")).body.decode()
    named = 'crawlstream_signing_directory_expires_seconds{agent="https://bot.example"}'
    assert f"{named} 2." in metrics


async def test_changes_are_logged_by_key_and_address(keyed: Keyed, wait_until: WaitUntil) -> None:
    """Each attempt has one event with key, address, action, target and outcome; no secret."""
    crawlid = "logged"
    await keyed.ask("shop", "POST", "/v2/crawls", [_seed(SHOP, crawlid)])
    await keyed.ask("shop", "POST", "/feed", _seed(SHOP, crawlid, 1))
    await _until_known(keyed, wait_until, (SHOP, crawlid))
    await keyed.ask("boss", "POST", "/v2/crawl/stop", _target(SHOP, crawlid))
    await keyed.ask("boss", "POST", "/v2/crawl/stop", _target(NEWS, crawlid))
    await keyed.ask("all", "PUT", "/v2/throttle/rules/logged.test", {"hits": 3})
    await keyed.ask("all", "DELETE", "/v2/throttle/rules/logged.test")
    lines = keyed.rest.process.logged().splitlines()
    told = [json.loads(line) for line in lines if '"event":"audit"' in line]
    found = [
        (one["key"], one["action"], one["outcome"])
        for one in told
        if crawlid in json.dumps(one) or "logged.test" in json.dumps(one)
    ]
    assert found == [
        ("shop-keeper", "feed", "done"),
        ("shop-keeper", "feed", "done"),
        ("boss", "stop", "done"),
        ("boss", "stop", "forbidden_appid"),
        ("all", "set-rule", "done"),
        ("all", "remove-rule", "done"),
    ]
    assert {one["address"] for one in told} == {"127.0.0.1"}
    (rule,) = [one for one in told if one["action"] == "set-rule"]
    assert (rule["domain"], rule["hits"]) == ("logged.test", 3)
    assert not [secret for secret in SECRETS.values() if secret in "\n".join(lines)]


def _publish(cluster: MonitorCluster, topic: str, *records: dict[str, Any]) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
    for record in records:
        producer.send(topic, json.dumps(record).encode())
    producer.flush(60)
    producer.close()


async def test_a_person_with_a_key_of_an_application_walks_its_screens(
    keyed: Keyed, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """A browser is led to the crawls of the key, kept live, and to nothing that it may not see."""
    await keyed.ask("all", "POST", "/v2/crawls", [_seed(SHOP, "mine"), _seed(NEWS, "theirs")])
    await _until_known(keyed, wait_until, (SHOP, "mine"), (NEWS, "theirs"))
    home = f"http://127.0.0.1:{keyed.rest.port}"
    async with chromium(tmp_path) as browser:
        tab = await browser.tab()
        # A browser remembers the password that it was given.
        await tab.go(home.replace("//", f"//anybody:{SECRETS['shop']}@") + "/ui/submit")
        await tab.go(home)

        async def is_live() -> bool:
            seen = await tab.text("body")
            assert "theirs" not in seen
            return "mine" in seen and await tab.text("#link") == "live"

        await wait_until(is_live)
        assert await tab.run("location.pathname") == "/ui/crawls"
        screens = ["Crawls", "Schedules", "Rejected", "Start a crawl"]
        assert (await tab.text("nav")).split("\n") == screens
        await keyed.ask("all", "POST", "/v2/crawls", [_seed(SHOP, "later"), _seed(NEWS, "theirs2")])

        async def has_come() -> bool:
            seen = await tab.text("body")
            assert "theirs" not in seen
            return "later" in seen

        await wait_until(has_come)
        await tab.go(f"{home}/ui/submit")
        assert await tab.run("document.querySelector('[name=appid]').value") == SHOP
        await tab.fill("[name=urls]", "http://127.0.0.1:9/")
        await tab.click("form[action*=crawls] button.main")

        async def is_fed() -> bool:
            return "1 fed" in await tab.text("#said")

        await wait_until(is_fed)
        assert tab.complaints == []
