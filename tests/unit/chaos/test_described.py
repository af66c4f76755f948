"""Pipelines under faults: their object store in processes of any version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from crawlstream_chaos.pipelines.described import describe

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
