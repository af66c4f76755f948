"""A table of a lake, its sink and its notes, by what the file of the pipelines says."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from crawlstream.errors import ConfigError, MissingExtra
from crawlstream.store.bodies import BodyStore
from crawlstream.store.store import Store
from pipeline_service.formats.columns import Column
from pipeline_service.formats.files import Crawl
from pipeline_service.records.judging import Wanted
from pipeline_service.records.rows import Shape
from pipeline_service.sinks.files.segments import Spool
from pipeline_service.sinks.kept_notes import KeptInLake
from pipeline_service.sinks.lake.lake_sink import LakeSink, add_page, with_ref
from pipeline_service.sinks.lake.segment_notes import FOLDER
from pipeline_service.sinks.lake.table import LakeTable, owner_of
from pipeline_service.sinks.row_maker import check_body, columns_of
from pipeline_service.sinks.segment_sink import SegmentSettings
from pipeline_service.sinks.sink import Begin, Kept
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.lake import DeltaSpec, IcebergSpec, LakeSpec

_NOT_IN_NAMES = " ,;{}()\n\t="
"""Characters that Parquet files of other writers cannot have in the name of a column."""


def open_lake(
    pipeline: Pipeline,
    spool: Spool,
    *,
    begin: Begin,
    shape: Shape | None,
    bodies: BodyStore | None,
) -> LakeSink:
    """The sink of a pipeline; ConfigError."""
    return LakeSink(
        _settings(pipeline, spool, shape),
        open_table(pipeline, shape),
        open_notes(pipeline),
        owner=_owner(pipeline),
        repeats=pipeline.repeats,
        begin=begin,
        bodies=bodies,
    )


def open_lake_notes(pipeline: Pipeline) -> Kept:
    """The notes that a pipeline's sink keeps; ConfigError."""
    return KeptInLake(open_notes(pipeline), open_table(pipeline, None), _owner(pipeline))


def open_notes(pipeline: Pipeline) -> Store:
    """The folder of a pipeline's notes, which is in the one of its table; ConfigError."""
    return Store.at(f"{pipeline.place}/{FOLDER}/{pipeline.name}")


def prove_lake(pipeline: Pipeline, shape: Shape | None) -> None:
    """Check that the table supports the pipeline. ConfigError, StoreUnavailable."""
    open_notes(pipeline).prove()
    open_table(pipeline, shape).check()


def replay(
    pipeline: Pipeline, judged: Wanted, shape: Shape | None, bodies: BodyStore | None
) -> None:
    """Add a page that could not be delivered when it came. StoreUnavailable, ConfigError."""
    with (
        tempfile.TemporaryDirectory(prefix="crawlstream-replay-") as folder,
        closing(Spool(Path(folder))) as spool,
    ):
        if bodies is not None:
            judged = with_ref(judged, bodies)
        settings = _settings(pipeline, spool, shape)
        add_page(open_table(pipeline, shape), settings, _owner(pipeline), judged)


def open_table(pipeline: Pipeline, shape: Shape | None) -> LakeTable[Any]:
    """The table of a pipeline, which may not be there yet; ConfigError."""
    sink = lake_of(pipeline)
    if shape is not None:
        check_lake_columns(shape, sink)
    if isinstance(sink, IcebergSpec):
        return _iceberg(sink, _columns(sink, shape))
    assert isinstance(sink, DeltaSpec)
    try:
        from pipeline_service.sinks.lake.delta import DeltaLake  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtra("a Delta table", error.name, "delta") from error
    return DeltaLake(sink, columns=_columns(sink, shape))


def _iceberg(sink: IcebergSpec, columns: Sequence[Column]) -> LakeTable[Any]:
    try:
        from pipeline_service.sinks.lake.iceberg import IcebergLake  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtra("an Iceberg table", error.name, "iceberg") from error
    return IcebergLake(sink, columns=columns)


def check_lake_columns(shape: Shape, sink: LakeSpec) -> None:
    """ConfigError for rows that do not go into a table."""
    check_body(shape, sink.body)
    taken = set(sink.partition_by)
    for column in shape.columns:
        name = column.name
        if not name or any(sign in name for sign in _NOT_IN_NAMES):
            raise ConfigError(
                f"the field {name!r} cannot be a column of a table: a name must not be empty, nor"
                ' contain a space or one of ,;{}()=: rename it by a stage "fields"'
            )
        is_of_page = name in sink.partition_by and name not in shape.fields
        if name.lower() in taken and not is_of_page:
            raise ConfigError(
                f"the field {name!r} has the name of another column, or of one in partition_by, or"
                ' differs only in case: rename it by a stage "fields"'
            )
        taken.add(name.lower())


def lake_of(pipeline: Pipeline) -> LakeSpec:
    """Return the settings of a pipeline that adds files to a table."""
    assert isinstance(pipeline.sink, LakeSpec)
    return pipeline.sink


def _settings(pipeline: Pipeline, spool: Spool, shape: Shape | None) -> SegmentSettings:
    sink = lake_of(pipeline)
    return SegmentSettings(
        pipeline=pipeline.name,
        limits=sink,
        spool=spool,
        columns=_columns(sink, shape),
        crawl=Crawl(""),
        shape=shape,
    )


def _columns(sink: LakeSpec, shape: Shape | None) -> Sequence[Column]:
    """Return the columns of files: the log has those that all rows of a file have in common."""
    columns = columns_of(shape, with_body=sink.body == "bytes")
    return [column for column in columns if column.name not in sink.partition_by]


def _owner(pipeline: Pipeline) -> str:
    return owner_of(pipeline.name, pipeline.edition)
