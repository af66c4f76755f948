"""Forms of the dashboard as a browser without scripts sends them, between real servers."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from kafka import KafkaProducer
from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from support.browser import Tab, chromium
from support.monitors import MonitorCluster
from support.rest import Answer, RestProcess, rest_beside_monitors
from support.waiting import WaitUntil, wait_until

APP = "forms"
URLENCODED = "application/x-www-form-urlencoded"
KEY = "r" * 20
HTML = {"Accept": "text/html"}
_CLICK = "document.querySelector('%s').click()"


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service next to both monitors, without crawlers: seeds stay queued."""
    with rest_beside_monitors(cluster, tmp_path_factory.mktemp("rest"), wait_s=50) as service:
        yield service


async def _send(rest: RestProcess, path: str, fields: Any, **headers: str) -> Answer:
    """Send a form as a browser does from a page of the service."""
    own = {"Origin": f"http://127.0.0.1:{rest.port}", "Sec_Fetch_Site": "same-origin"}
    body = urlencode(fields, doseq=True).encode()
    sent = {"Content_Type": URLENCODED, **HTML, **own, **headers}
    return await rest.post(f"/ui/do{path}", body, **sent)


async def _followed(rest: RestProcess, answer: Answer) -> str:
    """The screen that an answer leads to."""
    assert answer.status == 303, answer.body
    screen = await rest.get(answer.headers["location"], **HTML)
    assert screen.status == 200
    return unescape(screen.body.decode())


def _beside(page: str, field: str) -> str:
    """Text next to a field."""
    found = re.search(rf'data-for="{field}" role="alert">([^<]*)<', page)
    assert found, page
    return found[1]


def _target(crawlid: str) -> dict[str, str]:
    return {"appid": APP, "crawlid": crawlid, "spiderid": "link"}


async def _state(rest: RestProcess, crawlid: str, *, admitted: int = 1) -> Any:
    """Return the state of a crawl; seeds that are fed may take a while to be admitted."""

    async def has_seeds() -> Any:
        answer = await rest.get(f"/v2/crawl?appid={APP}&crawlid={crawlid}")
        is_known = answer.status == 200 and answer.data["admitted"] >= admitted
        return answer.data if is_known else None

    return await wait_until(has_seeds)


async def test_a_crawl_is_started_by_the_form_alone(rest: RestProcess) -> None:
    """Each field reaches the cluster as what it is; the screen of the crawl says it was fed."""
    fields = {
        **_target("alone"),
        "urls": "http://127.0.0.1/a/b\r\n\r\n  http://127.0.0.2/  \r\n",
        "scope": "host",
        "maxdepth": "2",
        "priority": "",
        "headers": "Accept-Language: en\r\nX-Two: 2",
        "attrs": '{"job": 7}',
        "obey_robots": "false",
        "expires": "2099-01-01T00:00",
    }
    answer = await _send(rest, "/v2/crawls", fields)
    assert answer.headers["location"].startswith("/ui/crawl?")
    assert "Fed: 2." in await _followed(rest, answer)
    state = await _state(rest, "alone", admitted=2)
    assert (state["admitted"], state["expires"]) == (2, 4070908800)
    form = unescape((await rest.get(f"/ui/submit?{urlencode(_target('alone'))}")).body.decode())
    assert ">http://127.0.0.1/a/b\nhttp://127.0.0.2/</textarea>" in form
    assert ">127.0.0.1\n127.0.0.2</textarea>" in form
    assert ">Accept-Language: en\nX-Two: 2</textarea>" in form
    assert '>{"job":7}</textarea>' in form
    assert '<option value="false" selected>' in form


async def test_what_is_wrong_stands_beside_its_field(rest: RestProcess) -> None:
    """Typed text is kept, <b> and all, and nothing is fed."""
    fields = {
        **_target("wrong"),
        "urls": "http://127.0.0.1/\nftp://<b>/",
        "scope": "prefix",
        "maxdepth": "deep",
        "attrs": "no JSON",
        "not_before": "2099-01-01T00:00",
    }
    answer = await _send(rest, "/v2/crawls", fields)
    assert answer.status == 422
    assert b"ftp://<b>/" not in answer.body
    page = unescape(answer.body.decode())
    assert "maxdepth: must be integer" in _beside(page, "maxdepth")
    assert "attrs: must be object" in _beside(page, "attrs")
    assert ">http://127.0.0.1/\nftp://<b>/</textarea>" in page
    assert 'value="deep" aria-invalid="true"' in page
    assert '<option value="prefix" selected>' in page
    assert 'value="2099-01-01T00:00"' in page
    assert "<details open>" in page
    right = {**_target("wrong"), "urls": fields["urls"]}
    page = unescape((await _send(rest, "/v2/crawls", right)).body.decode())
    assert "seed 2: url" in _beside(page, "urls")
    assert (await rest.get(f"/v2/crawl?{urlencode(_target('wrong'))}")).status == 404


async def _upload(rest: RestProcess, name: str, content: bytes) -> Answer:
    """Send a file as a browser does."""
    disposition = f'Content-Disposition: form-data; name="file"; filename="{name}"'
    body = b"--x\r\n%b\r\n\r\n%b\r\n--x--\r\n" % (disposition.encode(), content)
    kind = {"Content_Type": "multipart/form-data; boundary=x"}
    return await rest.post("/ui/do/v2/crawls", body, **HTML, **kind)


async def test_a_file_is_fed_by_the_form_alone(rest: RestProcess) -> None:
    """A table, lines or a list by the name of the file; each bad row is named, none is fed."""
    row = f"appid,crawlid,url,maxdepth\r\n{APP},file,http://127.0.0.1/%d,%s\r\n"
    bad = (row % (1, 0) + f"{APP},file,http://127.0.0.1/3,two\r\n").encode()
    answer = await _upload(rest, "a.csv", bad)
    assert (answer.status, b"row 2: maxdepth: " in answer.body) == (422, True)
    none = await _upload(rest, "", b"")
    assert (none.status, b"Choose a file." in none.body) == (422, True)
    assert "Fed: 1." in await _followed(rest, await _upload(rest, "a.CSV", (row % (1, 0)).encode()))
    seed = {"appid": APP, "crawlid": "file", "url": "http://127.0.0.1/2"}
    lines = json.dumps(seed).encode() + b"\n" + json.dumps({**seed, "maxdepth": 1}).encode()
    assert "Fed: 2." in await _followed(rest, await _upload(rest, "a.jsonl", lines))
    listed = json.dumps([seed]).encode()
    assert "Fed: 1." in await _followed(rest, await _upload(rest, "a.json", listed))
    # They are admitted in their order, those of the bad file first.
    assert (await _state(rest, "file", admitted=4))["admitted"] == 4


async def test_a_crawl_is_steered_by_forms_alone(rest: RestProcess) -> None:
    """The user confirms on a screen of its own; a pause has the end that was chosen."""
    await _followed(
        rest, await _send(rest, "/v2/crawls", {**_target("steered"), "urls": "http://127.0.0.1/"})
    )
    asked = {**_target("steered"), "_ask": "Pause <it>?", "until": "3600"}
    question = await _send(rest, "/v2/crawl/pause", asked)
    page = question.body.decode()
    assert (question.status, "<h1>Pause &lt;it&gt;?</h1>" in page) == (200, True)
    assert 'name="until" value="3600"' in page
    assert 'name="_ask"' not in page
    assert (await _state(rest, "steered"))["state"] == "running"
    del asked["_ask"]
    before = int(time.time())
    assert "Paused." in await _followed(rest, await _send(rest, "/v2/crawl/pause", asked))
    state = await _state(rest, "steered")
    assert state["state"] == "paused"
    assert 3600 <= state["paused_until"] - before <= 3700
    for verb, more, told in (
        ("resume", {}, "Resumed."),
        ("reprioritize", {"priority": "70"}, "The priority is changed."),
        ("stop", {}, "Stopped"),
    ):
        answer = await _send(rest, f"/v2/crawl/{verb}", {**_target("steered"), **more})
        assert told in await _followed(rest, answer)
    assert (await _state(rest, "steered"))["state"] == "stopped"
    unknown = await _send(rest, "/v2/crawl/stop", _target("nowhere"))
    assert (unknown.status, b"Known crawls" in unknown.body) == (404, True)


async def test_rules_are_changed_by_forms_alone(rest: RestProcess) -> None:
    """Set, paused, removed, blocked, unblocked; an error stands next to its field."""
    name = "forms.example.com"
    rule = {"domain": name, "hits": "3", "window": "1.5", "scale": "", "moderated": "false"}
    answer = await _send(rest, "/v2/throttle/rules", {**rule, "_method": "PUT"})
    assert "The rule is set" in await _followed(rest, answer)
    told = (await rest.get("/v2/throttle")).data["domains"][name]
    assert (told["hits"], told["window"], told["moderated"]) == (3, 1.5, False)
    pause = {"domain": name, "paused_until": "900"}
    await _followed(rest, await _send(rest, "/v2/throttle/rules", pause))
    told = (await rest.get("/v2/throttle")).data["domains"][name]
    assert (told["hits"], 800 < told["paused_until"] - time.time() <= 900) == (3, True)
    await _followed(rest, await _send(rest, "/v2/throttle/rules", {**pause, "paused_until": "0"}))
    assert (await rest.get("/v2/throttle")).data["domains"][name]["paused_until"] == 0
    removed = await _send(rest, "/v2/throttle/rules", {"domain": name, "_method": "DELETE"})
    assert "The rule is removed." in await _followed(rest, removed)
    assert name not in (await rest.get("/v2/throttle")).data["domains"]
    blocked = await _send(rest, "/v2/throttle/blacklist", {"domain": name})
    assert "Blocked." in await _followed(rest, blocked)
    assert name in (await rest.get("/v2/throttle")).data["blacklist"]
    free = await _send(rest, "/v2/throttle/blacklist", {"domain": name, "_method": "DELETE"})
    assert "Unblocked." in await _followed(rest, free)
    for wrong, field in (
        ({**rule, "hits": "-1"}, "hits"),
        ({**rule, "domain": "http://x/"}, "domain"),
    ):
        answer = await _send(rest, "/v2/throttle/rules", wrong)
        page = unescape(answer.body.decode())
        assert (answer.status, bool(_beside(page, field))) == (422, True)
        assert f'name="hits" type="number" min="0" max="1000000000" value="{wrong["hits"]}"' in page
    assert (await rest.get("/v2/throttle")).data["domains"].keys() & {name} == set()


async def test_a_schedule_is_steered_by_forms_alone(
    rest: RestProcess, cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """It is paused, resumed, fired and skipped, as its screen and the runs of its crawl say."""
    path = f"/v2/schedules/{APP}/nightly"
    definition = {
        "cron": "0 3 * * *",
        "crawl": {"crawlid": "nightly"},
        "seeds": ["http://127.0.0.1/"],
    }
    assert (await rest.call("PUT", path, definition)).status == 200
    for verb, told in (("pause", "Paused."), ("resume", "Resumed."), ("fire", "Fired.")):
        assert told in await _followed(rest, await _send(rest, f"{path}/{verb}", {}))
    assert not (await rest.get(path)).data["paused"]

    async def is_told() -> bool:
        screen = await rest.get(f"/ui/crawl/runs?{urlencode(_target('nightly'))}", **HTML)
        told = screen.body.decode()
        return "0 3 * * * <small>UTC" in told and "fed 1 seed" in told

    await wait_until(is_told)
    field = FrontierKeys.schedule_field(APP, "nightly")
    async with Redis(port=cluster.redis_port) as redis:
        await redis.zadd(cluster.keys.schedules(), {field: 2**40})  # It is not checked again.
        await redis.hset(cluster.keys.schedule(field), "fire", int(time.time()) + 60)
    assert "Skipped: " in await _followed(rest, await _send(rest, f"{path}/fire", {}))


async def test_rejected_records_are_fed_again_by_forms_alone(
    rest: RestProcess, cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """Chosen ones, or one whose text was mended; one that is not stays in the form."""

    def publish() -> None:
        producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
        bad = json.dumps({"appid": APP, "crawlid": "mended", "nonsense": 1}).encode()
        producer.send(cluster.topics.incoming, bad).get(60)
        producer.close()

    await asyncio.to_thread(publish)

    async def rejected() -> Any:
        return (await rest.get("/v2/rejected")).data["records"]

    (record, *_) = await wait_until(rejected)
    place = f"{record['partition']}:{record['offset']}"
    again = await _send(rest, "/v2/rejected/replay", {"record": [place]})
    assert "Replayed: 1." in await _followed(rest, again)
    for chosen in ({}, {"record": ["x:y"]}):
        assert (await _send(rest, "/v2/rejected/replay", chosen)).status == 422
    still_bad = {"_record": place, "raw": '{"appid": "forms", "crawlid": "still bad"}'}
    answer = await _send(rest, "/v2/crawls", still_bad)
    page = unescape(answer.body.decode())
    assert (answer.status, "'url' is missing" in page) == (422, True)
    assert f">{still_bad['raw']}</textarea>" in page
    assert '"nonsense": 1' in page
    good = {**_target("mended"), "url": "http://127.0.0.1/"}
    mended = await _send(rest, "/v2/crawls", {"_record": place, "raw": json.dumps(good)})
    assert "Fed: 1." in await _followed(rest, mended)


@pytest.mark.parametrize("origin", ["http://elsewhere.example", "null", "http://127.0.0.1:1"])
async def test_a_form_of_another_site_does_nothing(rest: RestProcess, origin: str) -> None:
    """A site whose page sends a form here is refused, with the reason on a page."""
    fields = {**_target("foreign"), "urls": "http://127.0.0.1/"}
    refused = await _send(rest, "/v2/crawls", fields, Origin=origin)
    assert (refused.status, b"Cross-site request refused." in refused.body) == (403, True)
    assert refused.headers["content-type"].startswith("text/html")
    other = await _send(rest, "/v2/crawls", fields, Sec_Fetch_Site="cross-site")
    assert other.status == 403
    assert (await rest.get(f"/v2/crawl?{urlencode(_target('foreign'))}")).status == 404


async def test_a_script_gets_the_answer_of_the_api(rest: RestProcess) -> None:
    """A client that wants JSON gets no question, no redirect, and may check without feeding."""
    script = {"Accept": "application/json"}
    fields = {**_target("script"), "urls": "http://127.0.0.1/", "_ask": "Sure?"}
    good = await _send(rest, "/v2/check", fields, **script)
    assert (good.status, good.data["good"]) == (200, 1)
    bad = await _send(rest, "/v2/check", {**fields, "maxdepth": "-1"}, **script)
    assert (bad.status, bad.error["code"]) == (422, "bad_request")
    nothing = await _send(rest, "/v2/crawls", {**fields, "scope": "galaxy"}, **script)
    assert "host, domain, prefix, any" in nothing.error["message"]
    fed = await _send(rest, "/v2/crawls", fields, **script)
    assert (fed.status, fed.data["fed"]) == (202, 1)
    assert (await _send(rest, "/v2/else", {})).status == 404


async def test_a_form_may_do_what_its_key_may(cluster: MonitorCluster, tmp_path: Path) -> None:
    """A key that only reads is refused on a page; a wrong one is asked for again."""
    keys = {"CRAWLSTREAM_API_KEYS": f"read:{KEY}"}
    with await asyncio.to_thread(
        partial(rest_beside_monitors, cluster, tmp_path, wait_s=5, **keys)
    ) as rest:
        refused = await _send(rest, "/v2/crawl/stop", _target("x"), X_API_Key=KEY)
        assert (refused.status, b"needs the role operate" in refused.body) == (403, True)
        unknown = await _send(rest, "/v2/crawls", {}, X_API_Key="z" * 20)
        assert (unknown.status, "Basic" in unknown.headers["www-authenticate"]) == (401, True)


async def test_a_browser_without_scripts_does_it_all(
    rest: RestProcess, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """It starts a crawl after a mistake, pauses it for an hour, and sets a rule."""
    async with chromium(tmp_path) as browser:
        tab = await browser.tab()
        await tab.call("Emulation.setScriptExecutionDisabled", value=True)
        reads = partial(_reads, tab, wait_until)
        home = f"http://127.0.0.1:{rest.port}"
        await tab.go(f"{home}/ui/submit")
        await tab.fill("[name=appid]", APP)
        await tab.fill("[name=crawlid]", "bare")
        await tab.fill("[name=urls]", "ftp://127.0.0.1/")
        await tab.leave(_CLICK % "form[action*=crawls] button.main")
        await reads("url: ")
        assert await tab.run("document.querySelector('[name=urls]').value") == "ftp://127.0.0.1/"
        await tab.fill("[name=urls]", "http://127.0.0.1/")
        await tab.leave(_CLICK % "form[action*=crawls] button.main")
        await reads("Fed: 1.")

        async def is_known() -> bool:
            await tab.go(f"{home}/ui/crawl?{urlencode(_target('bare'))}")
            return "Crawl bare" in await tab.text("h1")

        await wait_until(is_known)
        await tab.run("document.querySelector('[name=until]').value = '3600'")
        await tab.leave(_CLICK % "[data-key=pause] button")
        await reads("Pause this crawl? Its queued pages are kept.", "Cancel")
        await tab.leave(_CLICK % "main button.main")
        await reads("Crawl bare", "Paused.", "paused", "until ")
        await tab.go(f"{home}/ui/domains?name=127.0.0.1")
        await tab.fill("#rule [name=hits]", "7")
        await tab.leave(_CLICK % "#rule button.main")
        await reads("Set this rule?")
        await tab.leave(_CLICK % "main button.main")
        await reads("The rule is set")

        async def is_in_force() -> bool:
            await tab.go(f"{home}/ui/domains?name=127.0.0.1")
            return "7 per " in await tab.text("[data-live]")

        await wait_until(is_in_force)
        # The browser's notes of the mistake.
        assert [
            one
            for one in tab.complaints
            if "/ui/do/v2/crawls" not in one and "/ui/crawl?" not in one
        ] == []


async def _reads(tab: Tab, wait_until: WaitUntil, *texts: str) -> None:
    async def are_there() -> bool:
        seen = await tab.text()
        is_whole = await tab.run("document.readyState === 'complete'")
        return is_whole and all(text in seen for text in texts)

    await wait_until(are_there)
