"""Pipelines under faults: their object store in processes of any version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.faults import FaultContext
from crawlstream_chaos.nemesis import OF_SEARCH
from crawlstream_chaos.pipelines.described import describe, readers

_WITHOUT_CHAOS = """
import sys
sys.modules["crawlstream_chaos"] = None
import fsspec
print(fsspec.get_filesystem_class("objects").__module__)
"""


def test_object_store_needs_nothing_of_the_chaos_package(tmp_path: Path) -> None:
    """The version before is a wheel, which has no chaos: its pipelines use the store all the same.

    It is registered only in pipeline processes, recognised by their command line.
    """
    environment = {**os.environ, **describe(tmp_path, search="")}
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_CHAOS, "pipeline_service"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("chaos_objects", "")


async def test_a_cluster_of_the_version_before_has_no_search_server(tmp_path: Path) -> None:
    """Its pipelines do not write to one, nor to tables, and faults of one strike nothing."""
    describe(tmp_path, search="")
    described = (tmp_path / "pipelines.toml").read_text()
    assert "[pipeline.archive]" in described
    assert not any(kind in described for kind in ("delta", "iceberg", "search"))
    assert [each.pipeline for each in readers(tmp_path, search="")] == ["archive", "pages"]
    cluster = ChaosCluster(tmp_path, pages=50, hosts=1, pipelines=1)
    for fault in OF_SEARCH:
        assert not (await fault.inject(FaultContext(cluster, Random(1)))).has_struck
