"""``/v2/indexnow`` on a whole cluster: sites announce changed pages, and forgers cost little."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from crawlstream_chaos.scripted_site import Answer
from e2e.cluster import Cluster
from e2e.web.scrapes import another, rest_fixture, site_of
from support.rest import Answer as HttpAnswer
from support.rest import RestProcess
from support.waiting import WaitUntil

__all__ = ["rest_fixture"]

KEY, FORGED = "key-0123456789", "forged-0123456789"


async def test_pages_are_announced_by_a_site_that_has_the_key(
    cluster: Cluster, tmp_path: Path, wait_until: WaitUntil, fresh_name: str
) -> None:
    """Ask the site once for the key; ask it once a day for those that it does not have."""
    plain = {"Content-Type": "text/plain"}
    pages = {
        f"/{KEY}.txt": Answer(f"{KEY}\n".encode(), headers=plain),
        f"/{FORGED}.txt": Answer(FORGED.encode() + b" " * 1_024, headers=plain),
        "/other.txt": Answer(b"other", headers=plain),
    }
    appid = f"news{fresh_name}"
    with site_of(pages) as (site, host):
        settings = {"CRAWLSTREAM_INDEXNOW": f"{appid}@example.com+{host}"}
        async with another(cluster, tmp_path, **settings) as rest:

            async def announce(key: str, *urls: str, **more: Any) -> HttpAnswer:
                told = {"host": host, "key": key, "urlList": list(urls), **more}
                return await rest.post("/v2/indexnow", told)

            urls = [site.url("/a", host), site.url("/b?x=1", host)]
            first, second = await asyncio.gather(announce(KEY, *urls), announce(KEY, *urls))
            assert (first.status, first.data, second.status) == (200, {"accepted": 2}, 200)
            one = await rest.get(f"/v2/indexnow?url={site.url('/c', host)}&key={KEY}")
            assert (one.status, one.data) == (200, {"accepted": 1})
            assert site.paths() == [f"/{KEY}.txt"]

            forged = await announce(FORGED, *urls)
            assert (forged.status, forged.error["code"]) == (403, "wrong_key")
            location = {"keyLocation": site.url("/other.txt", host)}
            for _ in range(2):
                again = await announce(FORGED, *urls, **location)
                assert (again.status, again.error["code"]) == (429, "key_not_checked")
                assert int(again.headers["retry-after"]) > 86_000
            assert (await announce(KEY, *urls)).status == 200
            assert site.paths() == [f"/{KEY}.txt", f"/{FORGED}.txt"]

            for told in (
                ["http://127.0.0.9/a"],
                [urls[0], site.url("/a", "127.0.0.9")],
                ["ftp://x/"],
            ):
                assert (await announce(KEY, *told)).status == 422
            found: list[dict[str, Any]] = []

            async def all_published() -> bool:
                answer = await rest.get(f"/v2/events?appid={appid}")
                values = [one["value"] for one in answer.data["records"]]
                found[:] = [one for one in values if one["event"] == "pages_announced"]
                return sum(len(one["urls"]) for one in found) == 7

            await wait_until(all_published)
            assert {url for one in found for url in one["urls"]} == {*urls, site.url("/c", host)}
            statuses = {(await announce(KEY, "ftp://x/")).status for _ in range(4)}
            assert 429 in statuses, "an address may announce ten times a minute"


async def test_nothing_is_announced_without_the_setting(rest: RestProcess) -> None:
    """Refuse announcements, and name the setting."""
    answer = await rest.get(f"/v2/indexnow?url=http://a.example/&key={KEY}")
    assert (answer.status, answer.error["code"]) == (404, "indexnow_off")
    assert "CRAWLSTREAM_INDEXNOW" in answer.error["message"]
