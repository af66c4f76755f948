"""The form that starts a crawl: empty, or filled with the seeds of an earlier crawl."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Response

from crawlstream.bus.records import Record
from crawlstream.bus.tail import offsets_since, read_topic
from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.scope import Scope
from crawlstream.wire import jsontext
from rest_service.dashboard.fields import MORE
from rest_service.dashboard.problems import ProblemNote
from rest_service.dashboard.render import render
from rest_service.http.access import Client, Role
from rest_service.http.hiding import SECRET_FIELDS
from rest_service.service import Service, TheClient, TheService
from rest_service.v2.crawls import crawl_state
from rest_service.v2.living import living_spiders
from rest_service.v2.reading import CLOCKS_DIFFER_MS, SCANNED, wanted_by

_SEEDS_REPEATED = 500
_PATIENCE_S = 5.0
_ONCE = frozenset({"url", "appid", "crawlid", "uuid", "expires", "not_before"})
"""Fields of one crawl only; all others are copied when a crawl is repeated."""

Records = AsyncGenerator[Record, None]

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/submit")
async def submit(
    service: TheService,
    client: TheClient,
    *,
    appid: str = "",
    crawlid: str = "",
    spiderid: str = "link",
) -> Response:
    """Show the form that checks its input as the user types; filled if a crawl is named."""
    seeds: Sequence[Mapping[str, Any]] = ()
    problems = []
    if crawlid:
        client.check(appid)
        seeds = await _fed(service, client, CrawlKey(spiderid, appid, crawlid))
        if not seeds:
            told = f"The seeds of crawl {crawlid} are not in Kafka any more."
            problems.append(ProblemNote(f"{told} Please enter them."))
    without = _ONCE if client.role >= Role.OPERATE else _ONCE | SECRET_FIELDS
    values = {"spiderid": spiderid, **_filled(seeds, without)}
    if appid:
        values["appid"] = appid
    return await screen(service, client, values=values, repeated=crawlid, problems=problems)


async def screen(
    service: Service,
    client: Client,
    *,
    values: Mapping[str, str],
    repeated: str = "",
    problems: Sequence[ProblemNote] = (),
    wrong: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    """Return the form, with the values of its fields and the problems of each."""
    spiders = await living_spiders(service) or ()
    empty = {
        "appid": min(client.appids, default="dashboard"),
        "crawlid": uuid4().hex[:12],
        "spiderid": "link",
        "scope": Scope.ANY if repeated else Scope.HOST,
    }
    return render(
        "submit.html",
        "/ui/submit",
        client=client,
        status=status,
        repeated=repeated,
        problems=problems,
        spiders=sorted(spiders),
        fields=MORE,
        values=defaultdict(str, {**empty, **values}),
        wrong=wrong or {},
    )


async def _fed(service: Service, client: Client, key: CrawlKey) -> Sequence[Mapping[str, Any]]:
    """Return the seeds of a crawl's latest run, as far as Kafka has them, within five seconds."""
    one = await crawl_state(service, key)
    wanted = wanted_by(client, appid=key.appid, crawlid=key.crawlid, with_bodies=True)
    since_ms = max(0, int(one.started_at * 1000) - CLOCKS_DIFFER_MS)
    topic = service.topics.incoming
    found: dict[str, Mapping[str, Any]] = {}
    scanned = 0
    try:
        async with asyncio.timeout(_PATIENCE_S), service.pages.of(client.name):
            start = dict(await offsets_since(service.kafka, topic, since_ms))
            records = read_topic(service.kafka, topic, offsets=start)
            async with aclosing(records):
                async for record in records:
                    scanned += 1
                    seed: Any = wanted.pick(record)
                    if seed and "url" in seed and seed.get("spiderid", "link") == key.spiderid:
                        found[str(seed["url"])] = seed
                    if scanned >= SCANNED or len(found) >= _SEEDS_REPEATED:
                        break
    except (CrawlstreamError, TimeoutError):
        pass
    return list(found.values())


def _filled(
    seeds: Sequence[Mapping[str, Any]], without: Collection[str] = _ONCE
) -> Mapping[str, str]:
    """Return the values of the form: all URLs, and the other fields of the first seed."""
    if not seeds:
        return {}
    urls = "\n".join(str(seed["url"]) for seed in seeds)
    kinds = {one.name: one.kind for one in MORE}
    rest = {name: value for name, value in seeds[0].items() if name not in without}
    texts = {name: _text(kinds.get(name, ""), value) for name, value in rest.items()}
    return {"urls": urls, **{name: text for name, text in texts.items() if text}}


def _text(kind: str, value: Any) -> str:
    """Return a value as a user would type it."""
    if value is None:
        return ""
    if isinstance(value, list) and kind != "json":
        return "\n".join(map(str, value))
    if kind == "pairs" and isinstance(value, dict):
        return "\n".join(f"{name}: {text}" for name, text in value.items())
    return value if isinstance(value, str) else jsontext.dumps(value).decode()
