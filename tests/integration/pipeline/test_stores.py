"""Stores that cannot be relied on, and the spool: nothing is twice, nothing is left over."""

from __future__ import annotations

import asyncio
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import partition_offsets
from crawlstream.errors import ConfigError, KafkaUnavailable
from pipeline_service.sinks.files.segments import Spool
from support.pipelines.cluster import PipelineCluster
from support.pipelines.results import page_id, record
from support.waiting import WaitUntil


async def test_a_store_that_cannot_create_exclusively_is_refused(
    cluster: PipelineCluster, tmp_path: Path
) -> None:
    """Refuses such a store at the start, with exit code 2 and a remedy, before reading."""
    (tmp_path / "sitecustomize.py").write_text(
        "import fsspec\n"
        "from fsspec.implementations.memory import MemoryFileSystem\n"
        "class Careless(MemoryFileSystem):\n"
        "    protocol = 'careless'\n"
        "    def pipe_file(self, path, value, mode='overwrite', **kwargs):\n"
        "        super().pipe_file(path, value)\n"
        "fsspec.register_implementation('careless', Careless, clobber=True)\n"
    )
    cluster.describe()
    text = cluster.file.read_text().replace(str(cluster.out), "careless://bucket/folder")
    cluster.file.write_text(text)
    for verb in ("check", "run"):
        done = await asyncio.to_thread(cluster.command, verb, PYTHONPATH=str(tmp_path))
        assert done.returncode == 2
        assert "cannot create objects exclusively" in done.stderr


async def test_a_pipeline_waits_for_its_store(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """Waits for its store, loses nothing and reads nothing twice into files."""
    cluster.describe()
    cluster.feed(record(n) for n in range(5))
    process = cluster.process()
    with process.running():
        await wait_until(lambda: cluster.stored().total() == 5)
        away = cluster.home / "away"
        cluster.out.rename(away)
        cluster.out.write_text("a file where the folder should be")
        cluster.feed(record(n) for n in range(5, 10))
        await wait_until(lambda: '"outcome":"waiting"' in process.logged())
        cluster.out.unlink()
        away.rename(cluster.out)
        await wait_until(lambda: cluster.stored().total() == 10)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    assert cluster.stored() == {page_id(n): 1 for n in range(10)}


async def committed(cluster: PipelineCluster) -> int:
    """Position of the pipeline, as committed to Kafka for stored pages."""
    group = f"{cluster.topics.prefix}.pipeline.archive.1"
    try:
        told = await partition_offsets(Kafka([cluster.hosts]), cluster.topics.crawled, group=group)
    except KafkaUnavailable:
        return 0  # It does not know any group yet.
    return sum(each.committed or 0 for each in told.values())


async def test_a_disk_that_is_no_longer_mounted_is_no_empty_store(
    cluster: PipelineCluster, wait_until: WaitUntil
) -> None:
    """If it is gone while a process runs, or before one starts, nothing is written there."""
    cluster.describe()
    cluster.feed([record(n) for n in range(3)], key=b"one")
    process, away = cluster.process(), cluster.home / "away"
    with process.running():
        await wait_until(partial(committed, cluster))
        cluster.out.rename(away)
        cluster.out.mkdir()
        cluster.feed([record(3)], key=b"one")
        await wait_until(lambda: "is not the folder that it was" in process.logged())
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        process.start()
        await wait_until(lambda: "is its disk mounted? To start again" in process.logged())
        assert not cluster.stored()
        shutil.rmtree(cluster.out)
        away.rename(cluster.out)
        await wait_until(lambda: cluster.stored() == {page_id(n): 1 for n in range(4)})


def test_the_spool_of_a_process_that_died_is_removed(tmp_path: Path) -> None:
    """Removes the spool of a dead process, and leaves that of a running one."""
    living = Spool(tmp_path)
    kept = living.new_file()
    kept.write_bytes(b"mine")
    dead = tmp_path / "dead"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / "half").write_bytes(b"of a file")
    another = Spool(tmp_path)
    assert not dead.exists()
    assert kept.exists()
    another.close()
    living.close()
    assert not list(tmp_path.iterdir())


def test_a_spool_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Names the setting of the spool when it cannot be written."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="set CRAWLSTREAM_SPOOL"):
        Spool(tmp_path / "file")
