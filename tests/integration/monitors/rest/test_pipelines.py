"""Pipelines over REST and on the screens: how they stand, and the runs that they have stored."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape

import pytest
from redis.asyncio import Redis

from support.monitors import MonitorCluster
from support.pipelines.told import beat, report, tell_run
from support.rest import RestProcess, running_rest

PROBLEM = "20 records in a row are undelivered"
QUALITY = {"fields": {"price": {"present": 0.993, "valid": 0.5}}, "score": 0.992, "ok": False}
HOSTILE = {"fields": {"<b>": 1, "x": {"present": "no"}}, "score": "<i>", "ok": []}


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service, and runs that a pipeline has stored."""
    with running_rest(cluster, tmp_path_factory.mktemp("rest")) as service:
        tell_run(cluster, 1)
        tell_run(cluster, 1, read=11, repeats=2)
        tell_run(cluster, 2, complete=False, **QUALITY)
        tell_run(cluster, 3, crawlid="<other>", **HOSTILE)
        tell_run(cluster, 1, pipeline="another")
        tell_run(cluster, 1, done="many")
        yield service


async def test_pipelines_are_listed(
    rest: RestProcess, redis: Redis, cluster: MonitorCluster
) -> None:
    """Their own reports, and nothing of them where processes are listed."""
    heartbeat = await beat(redis, cluster, archive=report(), broken=report(broken=PROBLEM))
    ended, good, bad = (await rest.get("/v2/pipelines")).data
    assert (ended["name"], ended["state"], ended["edition"]) == ("another", "ended", 1)
    assert (ended["last_run"]["crawlid"], ended["last_run"]["complete"]) == ("spring", True)
    assert (good["last_run"]["run"], bad["last_run"]) == (3, None)
    assert (good["name"], good["state"], good["lag"], good["read"]) == ("archive", "running", 8, 12)
    assert good["undelivered"] == {"unreadable": 1}
    assert bad["remedy"] == "./crawlstream pipeline undelivered list broken"
    screen = unescape((await rest.get("/ui/pipelines")).body.decode())
    assert f"{PROBLEM}</span>. See <code>{bad['remedy']}</code>" in screen
    assert "/ui/pipelines/runs?name=archive" in screen
    processes = (await rest.get("/v2/processes")).data
    assert not any("pipelines" in each for each in processes)
    await heartbeat.retire()
    left = (await rest.get("/v2/pipelines")).data
    assert {one["name"]: one["state"] for one in left} == {"another": "ended", "archive": "ended"}
    screen = unescape((await rest.get("/ui/pipelines")).body.decode())
    assert "Not running now" in screen
    assert "/ui/pipelines/runs?name=another" in screen


async def test_runs_that_are_stored_are_reported(rest: RestProcess) -> None:
    """A quality of each run, the latest first; fields that later versions add are passed on."""
    found = (await rest.get("/v2/pipelines/archive/report")).data
    assert [each["run"] for each in found["runs"]] == [3, 2, 1]
    assert found["runs"][2]["read"] == 11, "what was told last counts"
    assert found["runs"][1]["fields"] == QUALITY["fields"]
    assert found["is_complete"]
    spring = (await rest.get("/v2/pipelines/archive/report?crawlid=spring")).data
    assert [each["run"] for each in spring["runs"]] == [2, 1]
    assert (await rest.get("/v2/pipelines/unknown/report")).status == 404


async def test_quality_is_shown_by_field(rest: RestProcess) -> None:
    """Qualities of stages; a value that is not a number or a known name is only text."""
    screen = (await rest.get("/ui/pipelines/runs?name=archive")).body.decode()
    assert "Quality by field" in screen
    for told in ("99.2%", "99.3%", "50.0%", "not met", "&lt;other&gt;"):
        assert told in screen, told
    assert "<other>" not in screen
    none = (await rest.get("/ui/pipelines/runs?name=unknown")).body.decode()
    assert "It has stored no run yet" in none
