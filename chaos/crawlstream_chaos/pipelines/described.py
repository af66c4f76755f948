"""The pipelines of a cluster under faults: into an object store, a folder, and a Delta table.

Files are short and soon complete, so that a fault strikes at any step of some of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from crawlstream_chaos.pipelines import objects
from crawlstream_chaos.pipelines.objects import ROOT
from crawlstream_chaos.pipelines.store_reader import StoreReader
from crawlstream_chaos.pipelines.table_reader import TableReader

_FILE = """
[pipeline.archive]
sink = {{kind = "files", format = "jsonl.zst", path = "objects://bucket", max_age = "1s", max_records = 40}}

[pipeline.pages]
where = {{status = ["2xx"]}}
sink = {{kind = "files", format = "warc.gz", path = "{folder}", max_age = "2s", max_records = 60}}
"""  # noqa: E501  TOML wants it in one line
_TABLE = """
[pipeline.lake]
where = {{status = ["2xx"]}}
sink = {{kind = "delta", url = "{folder}/table", body = "bytes", max_age = "5s", max_records = 50}}
"""
_REGISTER = """
import sys
if "pipeline_service" in sys.orig_argv:
    import chaos_objects
    chaos_objects.register()
"""
"""Code that Python runs before anything else: only this store has the protocol.

The module of the store is copied next to it: the version before runs without this package.
"""
_BUCKET = "bucket"


def objects_of(home: Path) -> Path:
    """Where the object store keeps what it has."""
    return home / "data" / "objects"


def describe(home: Path, *, has_table: bool) -> Mapping[str, str]:
    """Write the file of the pipelines; the variables by which their processes find all of it.

    ``has_table``: they know Delta tables, which an earlier version does not.
    """
    python, folder, file = home / "python", home / "data" / "files", home / "pipelines.toml"
    python.mkdir(exist_ok=True)
    (python / "sitecustomize.py").write_text(_REGISTER)
    (python / "chaos_objects.py").write_text(Path(objects.__file__).read_text())
    file.write_text((_FILE + _TABLE * has_table).format(folder=folder))
    path = os.pathsep.join(filter(None, (str(python), os.environ.get("PYTHONPATH"))))
    return {"CRAWLSTREAM_PIPELINES": str(file), ROOT: str(objects_of(home)), "PYTHONPATH": path}


def readers(home: Path, *, has_table: bool = True) -> Sequence[StoreReader]:
    """Return the readers of their stores."""
    bucket, files = objects_of(home) / _BUCKET, home / "data" / "files"
    tables = [TableReader("lake", files / "table", statuses=range(200, 300))]
    return [
        *(tables if has_table else ()),
        StoreReader("archive", bucket / "archive" / "edition=1"),
        StoreReader("pages", files / "pages" / "edition=1", statuses=range(200, 300)),
    ]
