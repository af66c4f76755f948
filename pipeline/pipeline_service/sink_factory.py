"""A sink of a pipeline, or what its sink keeps, by what the file says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit  # noqa: TID251  settings, of any scheme

from crawlstream import __version__
from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError, CrawlstreamError, MissingExtra
from crawlstream.plugins.installed import find
from crawlstream.plugins.sinks import RowStore, SinkSpec, SinkUnavailable
from crawlstream.store.bodies import BodyStore
from crawlstream.store.store import Store
from pipeline_service.formats.files import Crawl, make_writer
from pipeline_service.memory.document_maker import DocumentMaker
from pipeline_service.memory.seen_maker import SeenMaker
from pipeline_service.memory.sql.change_outbox import ChangeOutbox
from pipeline_service.memory.sql.change_store import ChangeStore
from pipeline_service.memory.sql.change_texts import ChangeTexts
from pipeline_service.memory.sql.effect import MemoryEffect
from pipeline_service.memory.sql.visits import VisitStore
from pipeline_service.memory.sql.webhook_queue import WebhookQueue
from pipeline_service.memory.sql.webhook_store import WebhookStore
from pipeline_service.records.rows import Shape
from pipeline_service.sinks.files.files_sink import FilesSink
from pipeline_service.sinks.files.segments import Spool
from pipeline_service.sinks.idempotent import row_store
from pipeline_service.sinks.kafka import KafkaStore
from pipeline_service.sinks.kept_notes import KeptInFiles, KeptInRows
from pipeline_service.sinks.lake.opening import (
    open_lake,
    open_lake_notes,
    open_notes,
    open_table,
    prove_lake,
)
from pipeline_service.sinks.row_maker import RowMaker, check_columns, columns_of
from pipeline_service.sinks.rows import RowsSink
from pipeline_service.sinks.search.connection import SearchClient
from pipeline_service.sinks.search.search_store import SearchStore
from pipeline_service.sinks.segment_sink import SegmentSettings
from pipeline_service.sinks.sink import Begin, Kept, PageSink
from pipeline_service.sinks.sql.database import Database
from pipeline_service.sinks.sql.notes import Notebook
from pipeline_service.sinks.sql.payload_index import PayloadIndex
from pipeline_service.sinks.sql.sqlite import Sqlite
from pipeline_service.sinks.sql.store import NoEffect, SqlEffect, SqlStore
from pipeline_service.sinks.sql.table import TableEffect
from pipeline_service.spec.config import OF_FAILURES, Pipeline
from pipeline_service.spec.files_spec import FilesSpec
from pipeline_service.spec.lake import LakeSpec
from pipeline_service.spec.memory import PagesSink, Visits
from pipeline_service.spec.places import SQLITE
from pipeline_service.spec.sinks import GROUP, KafkaSpec, PluginSpec, SearchSpec, SqlSpec


def open_sink(
    settings: Settings, pipeline: Pipeline, spool: Spool, *, begin: Begin, shape: Shape | None
) -> PageSink:
    """The sink of a pipeline; ConfigError.

    ``shape`` is of rows that are not the pages themselves.
    """
    with _blaming(pipeline):
        if isinstance(pipeline.sink, FilesSpec):
            made = SegmentSettings(
                pipeline=pipeline.name,
                limits=pipeline.sink,
                spool=spool,
                columns=columns_of(shape),
                crawl=crawl_of(settings),
                shape=shape,
            )
            store, index = open_store(pipeline), open_index(pipeline, pipeline.sink)
            return FilesSink(made, store, repeats=pipeline.repeats, begin=begin, index=index)
        if isinstance(pipeline.sink, LakeSpec):
            bodies = bodies_of(settings, pipeline.sink.body)
            return open_lake(pipeline, spool, begin=begin, shape=shape, bodies=bodies)
        if isinstance(pipeline.sink, PagesSink):
            sink, is_banned = pipeline.sink, lambda page: pipeline.ban_of(page) != ""
            compares = sink.changes is not None and sink.changes.has_diff
            seen = SeenMaker(sink.signature, keep=sink.keep, compares=compares, is_banned=is_banned)
            return RowsSink(pipeline, open_memory(pipeline, pipeline.sink), seen, begin=begin)
        maker = make_maker(settings, pipeline, shape)
        rows = open_rows(settings, pipeline, maker)
        return RowsSink(pipeline, rows, _with_documents(pipeline, maker), begin=begin)


def open_kept(settings: Settings, pipeline: Pipeline) -> Kept:
    """Open the notes that a pipeline's sink keeps, on a connection of its own."""
    sink = pipeline.sink
    with _blaming(pipeline):
        if isinstance(sink, FilesSpec):
            return KeptInFiles(open_store(pipeline))
        if isinstance(sink, LakeSpec):
            return open_lake_notes(pipeline)
        if isinstance(sink, SqlSpec):
            return KeptInRows(_sql(pipeline, sink, NoEffect()), place_of(pipeline))
        return KeptInRows(open_rows(settings, pipeline, RowMaker(())), place_of(pipeline))


def prove(settings: Settings, pipeline: Pipeline, shape: Shape | None = None) -> None:
    """Check that the store supports the pipeline. ConfigError, Unavailable."""
    with _blaming(pipeline):
        if isinstance(pipeline.sink, FilesSpec):
            with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  a device
                make_writer(pipeline.sink.format, nowhere, Crawl("")).close()
            open_store(pipeline).prove()
            if (index := open_index(pipeline, pipeline.sink)) is not None:
                index.prove()
            return
        if isinstance(pipeline.sink, LakeSpec):
            bodies_of(settings, pipeline.sink.body)
            prove_lake(pipeline, shape)
            return
        store: RowStore
        if isinstance(pipeline.sink, PagesSink):
            store = open_memory(pipeline, pipeline.sink)
        else:
            store = open_rows(settings, pipeline, make_maker(settings, pipeline, shape))
        try:
            store.prove()
        except OSError as error:
            raise SinkUnavailable(f"{type(error).__name__}: {error}") from error
        finally:
            store.close()


@contextmanager
def _blaming(pipeline: Pipeline) -> Iterator[None]:
    """Say whose setting is wrong."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"pipeline.{pipeline.name}.sink: {error}") from error


def place_of(pipeline: Pipeline) -> str:
    """Return where pages go, for people; without secrets."""
    if isinstance(pipeline.sink, FilesSpec):
        return f"{pipeline.sink.format} to {open_store(pipeline).url('')}"
    if isinstance(pipeline.sink, LakeSpec):
        return open_table(pipeline, None).place
    if isinstance(pipeline.sink, KafkaSpec):
        return f"topic {pipeline.sink.topic}"
    if isinstance(pipeline.sink, PluginSpec):
        return f"sink {pipeline.sink.kind}"
    sink, parts = pipeline.sink, urlsplit(pipeline.sink.url)
    name = f"index {sink.index}" if isinstance(sink, SearchSpec) else sink.table
    if parts.scheme == "sqlite":
        return f"{name} of {Path(sink.url[len('sqlite:///') :]).resolve()}"
    port = f":{parts.port}" if parts.port else ""
    return f"{name} of {parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def new_folder(pipeline: Pipeline) -> str | None:
    """The folder of this machine's where its files are to be, if there never were any."""
    if not isinstance(pipeline.sink, FilesSpec | LakeSpec):
        return None
    is_files = isinstance(pipeline.sink, FilesSpec)
    store = open_store(pipeline) if is_files else open_notes(pipeline)
    return store.url("") if store.is_new else None


def open_store(pipeline: Pipeline) -> Store:
    """The folder of a pipeline's edition; ConfigError."""
    return Store.at(pipeline.place)


def open_index(pipeline: Pipeline, sink: FilesSpec) -> PayloadIndex | None:
    """Return the index of stored payloads, not connected yet; None: there is none. ConfigError."""
    if sink.revisits is None:
        return None
    url, store = sink.revisits.index, open_store(pipeline)
    if not url and not store.is_local:
        raise ConfigError(
            "revisits of files that are not on a local disk need an index: add index ="
            ' "postgresql://user:password@host:port/database" to revisits'
        )
    url = url or f"{SQLITE}{store.url('_log/payloads.db').removeprefix('file://')}"
    database = _database(SqlSpec(url=url), f"crawlstream {pipeline.name} payloads")
    return PayloadIndex(database, sink.revisits, (pipeline.name, pipeline.edition))


def open_rows(settings: Settings, pipeline: Pipeline, maker: RowMaker) -> RowStore:
    """The store of a pipeline's rows, not connected yet; ConfigError."""
    sink = pipeline.sink
    if isinstance(sink, KafkaSpec):
        return _topic(settings, pipeline, sink)
    if isinstance(sink, PluginSpec):
        return _plugin(pipeline, sink, maker)
    if isinstance(sink, SearchSpec):
        return _search(pipeline, sink, maker)
    assert isinstance(sink, SqlSpec)
    kinds = {column.name: column.kind for column in maker.columns}
    replaces, migrates = sink.on_repeat == "replace", sink.migrate
    effect = TableEffect(
        sink.table, kinds, replace=replaces, migrate=migrates, of_items=maker.makes_items
    )
    return _sql(pipeline, sink, effect)


def _with_documents(pipeline: Pipeline, maker: RowMaker) -> RowMaker | DocumentMaker:
    """Return the maker of what the sink of a pipeline holds: rows, or documents by their URLs."""
    if not pipeline.has_documents:
        return maker
    return DocumentMaker(maker, lambda page: pipeline.ban_of(page) != "")


def open_memory(pipeline: Pipeline, sink: PagesSink) -> SqlStore:
    """The store of a memory, not connected yet; ConfigError."""
    return _sql(pipeline, sink, _memory(pipeline, sink))


def open_visits(pipeline: Pipeline, sink: PagesSink) -> VisitStore:
    """The visits of a memory, by a connection of its own; ConfigError."""
    database = _database(sink, f"crawlstream {pipeline.name} visits")
    memory = SqlStore(
        database,
        _memory(pipeline, sink),
        pipeline=pipeline.name,
        edition=pipeline.edition,
    )
    return VisitStore(database, memory, pipeline, sink)


def open_changes(pipeline: Pipeline, sink: PagesSink) -> ChangeStore:
    """The changes of a memory, by a connection of its own; ConfigError."""
    database = _database(sink, f"crawlstream {pipeline.name} changes")
    effect = _memory(pipeline, sink)
    memory = SqlStore(database, effect, pipeline=pipeline.name, edition=pipeline.edition)
    return ChangeStore(database, memory, ChangeOutbox(sink.table, pipeline.name), pipeline)


def open_webhook(pipeline: Pipeline, sink: PagesSink) -> WebhookStore:
    """The changes that a webhook has not taken, by a connection of its own; ConfigError."""
    database = _database(sink, f"crawlstream {pipeline.name} webhook")
    effect = _memory(pipeline, sink)
    memory = SqlStore(database, effect, pipeline=pipeline.name, edition=pipeline.edition)
    return WebhookStore(database, memory, WebhookQueue(sink.table), pipeline)


def _memory(pipeline: Pipeline, sink: PagesSink) -> MemoryEffect:
    """Return the effect by which a reader of failures updates the memory of the same visits."""
    name = pipeline.name.removesuffix(OF_FAILURES)
    notes = Notebook(name, pipeline.edition)
    outbox = None
    if sink.changes:
        texts = ChangeTexts(sink.table) if sink.changes.has_diff else None
        webhook = WebhookQueue(sink.table) if sink.changes.webhook else None
        outbox = ChangeOutbox(sink.table, name, url=sink.changes.url, texts=texts, webhook=webhook)
    return MemoryEffect(pipeline.name, sink, pipeline.visits or Visits(), notes, outbox=outbox)


def make_maker(settings: Settings, pipeline: Pipeline, shape: Shape | None = None) -> RowMaker:
    """Return the maker of a pipeline's rows; ConfigError."""
    sink = pipeline.sink
    if isinstance(sink, SearchSpec):
        return RowMaker(columns_of(shape, with_body=False), shape=shape)
    if not isinstance(sink, SqlSpec):
        columns = columns_of(shape) if isinstance(sink, PluginSpec) else ()
        return RowMaker(columns, shape=shape)
    if shape is not None:
        check_columns(shape, sink)
    bodies = bodies_of(settings, sink.body)
    columns = columns_of(shape, with_body=sink.body == "bytes")
    return RowMaker(columns, shape=shape, bodies=bodies, replaces=sink.on_repeat == "replace")


def bodies_of(settings: Settings, body: str) -> BodyStore | None:
    """Return where bodies are kept if a sink only refers to them; ConfigError."""
    if body != "ref":
        return None
    if not settings.body_store:
        raise ConfigError('body = "ref" needs a body store: set CRAWLSTREAM_BODY_STORE')
    return BodyStore.at(settings.body_store)


def crawl_of(settings: Settings) -> Crawl:
    """Return the origin of pages that files name."""
    robots = "obey" if settings.robotstxt_obey else "ignore"
    return Crawl(f"crawlstream/{__version__}", user_agent=settings.user_agent, robots=robots)


def _topic(settings: Settings, pipeline: Pipeline, sink: KafkaSpec) -> KafkaStore:
    topics = settings.topics
    ours = (*topics.all(), topics.pipelines, pipeline.topic(topics))
    of_applications = f"{topics.prefix}.crawled_", f"{topics.prefix}.outbound_"
    if sink.topic in ours or sink.topic.startswith(of_applications):
        raise ConfigError(f"the topic {sink.topic} is one of the cluster itself: name another one")
    return KafkaStore(
        kafka_of(settings, "pipeline"),
        sink.topic,
        notes=topics.pipelines,
        owner=f"{pipeline.name}:{pipeline.edition}",
        exactly_once=sink.exactly_once,
    )


def _plugin(pipeline: Pipeline, sink: PluginSpec, maker: RowMaker) -> RowStore:
    found = find(GROUP, sink.kind)
    if found is None:
        raise ConfigError(f"no package has a sink {sink.kind!r} any more")
    make, package = found
    spec = SinkSpec(
        pipeline=pipeline.name,
        edition=pipeline.edition,
        options=sink.options,
        columns={column.name: column.kind.value for column in maker.columns},
    )
    try:
        store = row_store(make(spec))
    except CrawlstreamError as error:
        raise ConfigError(str(error)) from error
    except Exception as error:
        raise ConfigError(
            f"the sink of the package {package} failed: {type(error).__name__}: {error}"
        ) from error
    return store


def _search(pipeline: Pipeline, sink: SearchSpec, maker: RowMaker) -> RowStore:
    if maker.makes_items and sink.document == "page":
        raise ConfigError(
            'document = "page" is one document per URL, but the stages make items: set document ='
            ' "visit"'
        )
    store = SearchStore(
        SearchClient(sink.url, api_key=sink.api_key, ca=sink.ca),
        sink.index,
        owner=f"{pipeline.name}:{pipeline.edition}",
        columns=maker.columns,
        migrate=sink.migrate,
    )
    return row_store(store)


def _sql(pipeline: Pipeline, sink: SqlSpec, effect: SqlEffect) -> SqlStore:
    database = _database(sink, f"crawlstream {pipeline.name}")
    return SqlStore(database, effect, pipeline=pipeline.name, edition=pipeline.edition)


def _database(sink: SqlSpec, application: str) -> Database:
    if sink.scheme == "sqlite":
        return Sqlite(sink.url)
    try:
        from pipeline_service.sinks.sql.postgres import Postgres  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingExtra("PostgreSQL", error.name, "pipeline") from error
    return Postgres(sink.url, application)
