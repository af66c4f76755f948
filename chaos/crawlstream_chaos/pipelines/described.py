"""The pipelines of a cluster under faults: into files, tables, and a search index.

Files are short and soon complete, so that a fault strikes at any step of some of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from crawlstream_chaos.pipelines import objects
from crawlstream_chaos.pipelines.delta_log import DeltaLog
from crawlstream_chaos.pipelines.iceberg_log import IcebergLog
from crawlstream_chaos.pipelines.objects import ROOT
from crawlstream_chaos.pipelines.search_reader import SearchReader
from crawlstream_chaos.pipelines.store_reader import StoreReader
from crawlstream_chaos.pipelines.table_reader import TableReader

_FILE = """
[pipeline.archive]
sink = {{kind = "files", format = "jsonl.zst", path = "objects://bucket", max_age = "1s", max_records = 40}}

[pipeline.pages]
where = {{status = ["2xx"]}}
sink = {{kind = "files", format = "warc.gz", path = "{folder}", max_age = "2s", max_records = 60{revisits}}}
"""  # noqa: E501  TOML wants it in one line
_NEWER = """
[pipeline.lake]
where = {{status = ["2xx"]}}
sink = {{kind = "delta", url = "{folder}/table", body = "bytes", max_age = "5s", max_records = 50}}

[iceberg.chaos]
type = "sql"
uri = "sqlite:///{folder}/catalog.db"

[pipeline.iceberg]
where = {{status = ["2xx"]}}
sink = {{kind = "iceberg", catalog = "chaos", table = "web.pages", url = "{folder}/iceberg", body = "bytes", max_age = "5s", max_records = 50}}

[pipeline.search]
sink = {{kind = "search", url = "{search}"}}
"""  # noqa: E501  TOML wants it in one line
"""Sinks that the version before does not know."""
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


Reader = StoreReader | SearchReader


def objects_of(home: Path) -> Path:
    """Return where the object store keeps what it has."""
    return home / "data" / "objects"


def describe(home: Path, *, search: str) -> Mapping[str, str]:
    """Write the file of the pipelines; the variables by which their processes find all of it.

    ``search``: URL of the search server; empty for processes of the version before, which know
    neither it nor tables, nor revisits.
    """
    python, folder, file = home / "python", home / "data" / "files", home / "pipelines.toml"
    python.mkdir(exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    (python / "sitecustomize.py").write_text(_REGISTER)
    (python / "chaos_objects.py").write_text(Path(objects.__file__).read_text())
    described = _FILE + _NEWER * bool(search)
    revisits = ", revisits = {}" if search else ""
    file.write_text(described.format(folder=folder, search=search, revisits=revisits))
    path = os.pathsep.join(filter(None, (str(python), os.environ.get("PYTHONPATH"))))
    return {"CRAWLSTREAM_PIPELINES": str(file), ROOT: str(objects_of(home)), "PYTHONPATH": path}


def readers(home: Path, *, search: str) -> Sequence[Reader]:
    """Return the readers of their stores; ``search``: as above, past the proxy."""
    bucket, files = objects_of(home) / _BUCKET, home / "data" / "files"
    well = range(200, 300)
    found = [
        StoreReader("archive", bucket / "archive" / "edition=1"),
        StoreReader("pages", files / "pages" / "edition=1", statuses=well),
    ]
    if not search:
        return found
    table, iceberg = files / "table", files / "iceberg"
    log = IcebergLog(files / "catalog.db", "web.pages")
    return [
        *found,
        TableReader("lake", table, DeltaLog(table), statuses=well),
        TableReader("iceberg", iceberg, log, statuses=well),
        SearchReader("search", search, "pages"),
    ]
