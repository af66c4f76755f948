"""Archives of pipelines: payloads that they hold once, and an index of each file."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from crawlstream.boot import failpoints
from crawlstream.boot.liveness import Liveness
from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import Batch
from crawlstream.errors import ConfigError
from crawlstream.store.store import Store
from crawlstream_chaos.stores.postgres import RunningPostgres
from pipeline_service.formats.payloads import PayloadRecord
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import open_index, prove
from pipeline_service.sinks.sql.payload_index import PayloadIndex
from pipeline_service.spec.files_spec import FilesSpec
from support.pipelines import writer
from support.pipelines.archive import check_indexes, files_of, read_archive
from support.pipelines.objects import register
from support.pipelines.results import page_id, record
from support.pipelines.targets import OF_FILES, Target, Writing
from support.waiting import WaitUntil

MakeTarget = Callable[..., Target]
PAYLOADS = 5
START = 1795251154.0


def url(number: int) -> str:
    """The URL of a page."""
    return f"http://127.0.0.7:8080/{number}"


def body(number: int) -> bytes:
    """Return a payload that is long enough to be shared."""
    return b"payload %d " % number * 100


def page(number: int, **changes: Any) -> bytes:
    """Return the record of a page whose payload every fifth one has."""
    own = {"body": body(number % PAYLOADS), "response_url": url(number)}
    return record(number, **{**own, "timestamp": START + number, **changes})


def values() -> Sequence[bytes]:
    """Return the records of the topic, one of them twice and one of a short payload."""
    return [*map(page, range(writer.PAGES)), page(3), page(900, body=b"short")]


EXPECTED = {page_id(n): body(n % PAYLOADS) for n in range(writer.PAGES)} | {page_id(900): b"short"}


def run(env: Mapping[str, str]) -> None:
    """Be a process that writes the topic, and dies where FAILPOINT says."""
    os.environ.update(env)
    failpoints.set_up(os.environ["FAILPOINT"])
    register()
    asyncio.run(
        writer.write(writer.pipeline(os.environ["SINK"]), Path(os.environ["SPOOL"]), values)
    )


def start(target: Target, failpoint: str = "") -> Writing:
    """Start a writer."""
    env = {"SINK": target.sink, "SPOOL": str(target.spool), "FAILPOINT": failpoint}
    return Writing({**target.env, **env}, run)


def store_of(target: Target) -> Store:
    """Return the folder of its edition."""
    return Store.at(writer.pipeline(target.sink).place)


@pytest.fixture(params=["file", "objects"])
def target(request: pytest.FixtureRequest, make_target: MakeTarget, tmp_path: Path) -> Target:
    """Return a store of each kind; object stores have their index elsewhere."""
    index = f'index = "sqlite:///{tmp_path}/index.db"' if request.param == "objects" else ""
    return make_target(f"{request.param}/warc.gz", f", revisits = {{{index}}}")


async def put(target: Target, records: Sequence[bytes], partition: int = 0) -> None:
    """Write records of a partition, from its position on, in one segment."""
    asked, live = writer.pipeline(target.sink), Liveness("write")
    async with writer.sink_of(asked, target.spool) as sink:
        at = await sink.position(writer.TOPIC, partition) or 0
        made = writer.batch_of(records, at).records
        batch = Batch(writer.TOPIC, partition, at, at + len(made), made)
        assert await sink.write(batch, judge(asked, batch), live) is None


def test_each_payload_is_stored_once(target: Target, tmp_path: Path) -> None:
    """Writes revisits within a segment and to earlier ones, and counts them; warcio accepts all."""
    with start(target) as process:
        assert process.wait() == 0
    files = files_of(store_of(target))
    assert len(files) > 2
    check_indexes(store_of(target))
    found = read_archive(files)
    assert found.bodies == EXPECTED
    assert set(found.copies.values()) == {1}
    assert found.revisits == Counter(
        {url(n): writer.PAGES // PAYLOADS - 1 for n in range(PAYLOADS)}
    )
    total = target.standing().account.total
    saved = sum(len(body(n % PAYLOADS)) for n in range(PAYLOADS, writer.PAGES))
    assert total.marks == {"revisits": writer.PAGES - PAYLOADS, "bytes_saved": saved}
    assert (total.delivered, total.repeats, total.is_closed) == (writer.PAGES + 1, 1, True)
    for number, content in enumerate(files.values()):
        (tmp_path / f"{number}.warc.gz").write_bytes(content)
    warcs = list(map(str, tmp_path.glob("*.warc.gz")))
    check = [sys.executable, "-m", "warcio.cli", "check", *warcs]
    assert subprocess.run(check, check=False).returncode == 0


def test_a_killed_writer_loses_no_payload(target: Target) -> None:
    """Each page has its payload after deaths at each step."""
    for at in (*(f"{step}:kill:{nth}" for nth in (1, 2) for step in OF_FILES), ""):
        with start(target, at) as process:
            assert process.wait() == (-signal.SIGKILL if at else 0), at
    store = store_of(target)
    assert read_archive(files_of(store)).bodies == EXPECTED
    check_indexes(store)
    total = target.standing().account.total
    assert (total.delivered, total.repeats, total.is_closed) == (writer.PAGES + 1, 1, True)
    # The process that died before its second claim has left references that no claim names.
    assert len([name for name in store.list("_log") if name.endswith(".refs")]) == 1


async def test_a_segment_that_is_made_again_has_the_same_bytes(target: Target) -> None:
    """Refers to the records that its claim names, though the index knows newer ones by then."""
    await put(target, [page(n) for n in range(PAYLOADS - 1)])
    with start(target, "after_put:kill:1") as process:
        assert process.wait() == -signal.SIGKILL
    store = store_of(target)
    before = files_of(store)
    await put(target, [page(n, timestamp=START + n + 3600) for n in range(500, 505)], 1)
    with start(target) as process:
        assert process.wait() == 0
    after = files_of(store)
    assert len(before) == 2
    assert {name: after[name] for name in before} == before
    read_archive(after)
    check_indexes(store)
    assert not [name for name in store.list("_log") if name.endswith(".refs")]


async def test_a_frozen_writer_changes_no_reference(target: Target, wait_until: WaitUntil) -> None:
    """Finishes, when it goes on, what another process has finished for it, with equal bytes."""
    with start(target, "after_claim:stop:2") as frozen:
        await wait_until(lambda: frozen.is_frozen, timeout_s=240)
        with start(target) as process:
            assert process.wait() == 0
        before = files_of(store_of(target))
        frozen.thaw()
        assert frozen.wait() == 0
    assert files_of(store_of(target)) == before
    assert read_archive(before).bodies == EXPECTED


async def test_another_payload_under_the_id_of_a_page_is_not_mixed_up(target: Target) -> None:
    """Stores the first one with its own digest, though both come in one batch."""
    await put(target, [page(1), page(1, body=body(2)), page(2), page(6)])
    found = read_archive(files_of(store_of(target)))
    assert found.bodies == {page_id(1): body(1), page_id(2): body(2), page_id(6): body(1)}


async def test_the_scope_run_has_each_payload_in_each_run(target: Target) -> None:
    """Stores a payload again for another run, so that the records of a run are complete."""
    sink = target.sink.replace("revisits = {", 'revisits = {scope = "run", ').replace(", }", "}")
    target = replace(target, sink=sink)
    for one in (1, 2):
        await put(target, [page(n, run=one) for n in range(10 * one, 10 * one + 7)])
    copies = read_archive(files_of(store_of(target))).copies
    assert copies == Counter({body(n): 2 for n in range(PAYLOADS)})


async def test_requisites_are_counted(target: Target) -> None:
    """Counts records of the kind `requisite` as well as the delivered ones, and no redirects."""
    kinds = [b'"requisite"', b'"redirect"']
    await put(target, [page(n)[:-1] + b',"kind":%s}' % kind for n, kind in enumerate(kinds)])
    total = target.standing().account.total
    assert (total.delivered, total.archived) == (2, {"requisites": 1})


async def test_pages_wait_for_an_index_that_is_away(
    make_target: MakeTarget, tmp_path: Path
) -> None:
    """Goes on, with revisits, when it is back; nothing is written meanwhile."""
    folder = tmp_path / "disk"
    folder.mkdir()
    target = make_target("file/warc.gz", f', revisits = {{index = "sqlite:///{folder}/index.db"}}')
    await put(target, [page(1)])
    away = folder.rename(tmp_path / "away")
    writing = asyncio.create_task(put(target, [page(6)]))
    asked = writer.pipeline(target.sink)
    with pytest.raises(ConfigError, match="does not exist"):
        prove(load_settings(), asked)
    await asyncio.sleep(0.3)
    assert not writing.done()
    away.rename(folder)
    await writing
    assert read_archive(files_of(store_of(target))).revisits == Counter({url(1): 1})


def test_revisits_of_objects_need_an_index(make_target: MakeTarget) -> None:
    """Names the key that is missing, before anything is written."""
    asked = writer.pipeline(make_target("objects/warc.gz", ", revisits = {}").sink)
    with pytest.raises(ConfigError, match="need an index: add index = "):
        prove(load_settings(), asked)


@pytest.fixture(params=["sqlite", "postgresql"])
def index_url(request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str) -> str:
    """Return the URL of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/index.db"
    server: RunningPostgres = request.getfixturevalue("postgres_server")
    return server.make_database(fresh_name)


def index_of(target: Target, edition: int = 1) -> PayloadIndex:
    """Return the index of an edition."""
    asked = writer.pipeline(target.sink, f"edition = {edition}")
    assert isinstance(asked.sink, FilesSpec)
    index = open_index(asked, asked.sink)
    assert index is not None
    return index


async def test_an_index_forgets_what_is_old_or_too_much(
    index_url: str, make_target: MakeTarget
) -> None:
    """Keeps the newest record of a payload, within age and number, for each edition."""
    spec = f'index = "{index_url}", most = 1000, age = "1h"'
    target = make_target("file/warc.gz", f", revisits = {{{spec}}}")
    index, other = index_of(target), index_of(target, 2)

    def at(minute: int) -> PayloadRecord:
        when = datetime(2025, 1, 1, minute // 60, minute % 60, tzinfo=UTC)
        return PayloadRecord(f"http://é/{minute}", when.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))

    now = datetime(2025, 1, 1, 0, 30, tzinfo=UTC)
    try:
        await index.add({b"a": at(20), b"b": at(10)})
        await index.add({b"a": at(5), b"b": at(25)})
        assert await index.find([b"a", b"b", b"c"], now) == {b"a": at(20), b"b": at(25)}
        assert await other.find([b"a"], now) == {}
        assert await index.find([b"a", b"b"], now.replace(hour=1, minute=22)) == {b"b": at(25)}
        await index.add({b"d": at(84)})
        assert await index.find([b"a", b"b", b"d"], now) == {b"b": at(25), b"d": at(84)}
        many = {b"%d" % n: at(85 + n // 100) for n in range(1100)}
        await index.add(many)
        left = await index.find([b"d", *many], now)
        assert 900 <= len(left) <= 1000
        assert left[b"1099"] == many[b"1099"]
        assert b"d" not in left
    finally:
        await index.close()
        await other.close()
