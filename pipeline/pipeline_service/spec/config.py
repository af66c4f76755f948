"""The file of the pipelines: TOML in, frozen values out, or a sentence that says what is wrong."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from crawlstream.errors import ConfigError
from crawlstream.keys import Topics
from crawlstream.model.delivered import Delivered
from crawlstream.model.web.directives import BodyBan, ban_of
from pipeline_service.spec.files_spec import FilesSpec, read_files
from pipeline_service.spec.lake import (
    IcebergSpec,
    LakeSpec,
    in_catalog,
    read_catalogs,
    read_delta,
    read_iceberg,
)
from pipeline_service.spec.memory import (
    LONGEST_NAME,
    PagesSink,
    Visits,
    memory_stages,
    read_pages,
    read_visits,
)
from pipeline_service.spec.places import check_moved, in_folder
from pipeline_service.spec.quality.expect import Expectation, fields_of, read_expect
from pipeline_service.spec.quantities import filled, known, one_of, read_seconds
from pipeline_service.spec.quantities import flag as _flag
from pipeline_service.spec.quantities import some_of as _some_of
from pipeline_service.spec.quantities import table as _table
from pipeline_service.spec.quantities import text as _text
from pipeline_service.spec.quantities import whole as _whole
from pipeline_service.spec.sinks import (
    KafkaSpec,
    PluginSpec,
    SearchSpec,
    SqlSpec,
    read_kafka,
    read_plugin,
    read_search,
    read_sql,
)
from pipeline_service.spec.stages import ChainPlan, StageSpec, read_stages
from pipeline_service.spec.where import Where

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
FAILURES, OF_FAILURES = "events", ".failures"
"""Source of the pages without result, and what its pipeline is called after; no name has a dot."""
_NO_KEYS = ("name", "folder", "table_name")
_SUCCESS = 2
"""Hundreds of a status."""
GONE = (404, 410)
"""Status of a page that is not there any more."""


SinkConfig = FilesSpec | LakeSpec | SqlSpec | KafkaSpec | SearchSpec | PluginSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Source, filter and sink, under a name."""

    name: str
    sink: SinkConfig
    source: str = "crawled"
    start: str | datetime = "earliest"
    """``earliest``, ``latest`` or a time; counts only where nothing is stored yet."""
    where: Where = field(default_factory=Where)
    respect: Sequence[str] = field(default=(), repr=False)
    """Statements by which pages are left out, or gone for a memory: values of `BodyBan`."""
    edition: int = 1
    repeats: int = 250_000
    """Number of remembered ids of a partition, to recognize a repeat."""
    keep_secrets: bool = False
    stop_after_undelivered: int = 1_000
    """Records in a row for one reason; 0: go on whatever comes."""
    on_gap: str = "skip"
    """``skip`` records that Kafka has deleted before they were read, or ``stop`` there."""
    stage: Sequence[StageSpec] = ()
    workers: int | None = None
    """Processes that run the stages; 0: a thread runs them. None: one, if they need any."""
    timeout: float = 30.0
    """Seconds for the stages of one page, in a worker process."""
    memory_mb: int = 1024
    """Memory of a worker process in MB; 0: unlimited."""
    expect: Sequence[Expectation] = ()
    visits: Visits | None = None
    """Visits to the pages of a memory; None: there are none."""
    folder: str = field(default="", repr=False, compare=False)
    """Folder of the file of the pipelines; modules of stages are imported from it."""
    table_name: str = field(default="", repr=False, compare=False)
    """Name of its table in that file, which several sinks have in common; empty: its own name."""

    @property
    def worker_count(self) -> int:
        """Return how many processes run the stages."""
        if self.workers is not None:
            return self.workers
        return 0 if all(spec.is_cheap for spec in self.stage) else 1

    @property
    def plan(self) -> ChainPlan:
        """Its stages, as they are run."""
        return ChainPlan(self.stage, fields_of(self.expect), self.folder)

    @property
    def changes_rows(self) -> bool:
        """Return whether it stores something else than pages as they are."""
        return any(spec.changes_rows for spec in self.stage)

    @property
    def visit_schedule(self) -> str:
        """The name of the occasions on which pages are visited."""
        return f"visits-{self.name}"[:40]

    @property
    def reads_failures(self) -> bool:
        """Return whether it reads of pages that have no result, in place of results."""
        return self.source == FAILURES

    @property
    def failures(self) -> Pipeline:
        """Return the pipeline that reads failures into this memory."""
        return replace(
            self,
            name=f"{self.name}{OF_FAILURES}",
            source=FAILURES,
            stage=(),
            expect=(),
            repeats=0,
        )

    def refuses(self, page: Delivered) -> str:
        """Return why a page is not wanted, as a code; empty: it is."""
        if isinstance(self.sink, PagesSink):
            if page.method != "GET":
                return "method"
            return "" if self.answers_visit(page) else self.where.refuses(page)
        if self.has_documents:
            return self.where.refuses(page) or ("" if _is_of_a_document(page) else "document")
        return self.where.refuses(page) or self.ban_of(page)

    @property
    def has_documents(self) -> bool:
        """Return whether it keeps one document per URL, which later results replace or delete."""
        return isinstance(self.sink, SearchSpec) and self.sink.document == "page"

    def ban_of(self, page: Delivered) -> str:
        """Return the first statement of a page that this pipeline respects; empty: none."""
        said = page.directives, self.respect, page.timestamp.timestamp(), page.rights
        return ban_of(*said) or ""

    def answers_visit(self, page: Delivered) -> bool:
        """Return whether this memory itself has requested a page."""
        firing = page.extra.get("occasion")
        return isinstance(firing, dict) and firing.get("schedule") == self.visit_schedule

    def stages_take(self, page: Delivered) -> bool:
        """Return whether stages run: of errors, 304 and bans a memory notes only that."""
        is_there = page.status_code // 100 == _SUCCESS and not self.ban_of(page)
        return is_there or not (isinstance(self.sink, PagesSink) or self.has_documents)

    def topic(self, topics: Topics) -> str:
        """The whole name of its source."""
        if self.source == "crawled":
            return topics.crawled
        return f"{topics.prefix}.{self.source}"

    def group(self, topics: Topics) -> str:
        """The group whose members share its partitions."""
        return f"{topics.prefix}.pipeline.{self.name}.{self.edition}"

    @property
    def place(self) -> str:
        """Path or URL of its files, ``<path>/<name>/edition=<number>``, its table or database."""
        if isinstance(self.sink, FilesSpec):
            return f"{self.sink.path.rstrip('/')}/{self.name}/edition={self.edition}"
        return self.sink.url if isinstance(self.sink, SqlSpec | LakeSpec) else ""

    @property
    def digest(self) -> str:
        """Digest of the settings that its processes must have in common, without secrets."""
        tells = getattr(self.sink, "digest_words", ())
        told = repr(self) + "".join((*self.respect, *tells))  # Unchanged without these keys.
        return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def load(file: Path, environment: Mapping[str, str]) -> Mapping[str, Pipeline]:
    """Return the pipelines of a file; ConfigError."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"the file of the pipelines {file} cannot be read ({error.strerror}): set"
            " CRAWLSTREAM_PIPELINES to its path"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8: {error}") from error
    folder = file.resolve().parent
    try:
        pipelines = read(text, environment, folder)
        for pipeline in pipelines.values():
            check_moved(pipeline.place, folder)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
    return pipelines


def read(
    text: str, environment: Mapping[str, str], folder: Path = Path()
) -> Mapping[str, Pipeline]:
    """The pipelines of a text; what it names is looked for in ``folder``. ConfigError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not TOML: {error}") from error
    known(document, ("pipeline", "iceberg"), "the file")
    catalogs = read_catalogs(document.get("iceberg", {}), environment, folder)
    tables = _table(document.get("pipeline", {}), "pipeline")
    if not tables:
        raise ConfigError("it has no pipeline: write a table [pipeline.NAME] for each")
    made: dict[str, Pipeline] = {}
    for table_name in tables:
        for pipeline in _pipelines(table_name, tables[table_name], environment, folder):
            if pipeline.name in made:
                raise ConfigError(
                    f"pipeline.{pipeline.name}: another pipeline has this name: sinks are named"
                    " after their table and kind"
                )
            where = f"pipeline.{pipeline.name}.sink"
            made[pipeline.name] = replace(pipeline, sink=_found(pipeline.sink, catalogs, where))
    return made


def _pipelines(
    name: str, value: Any, environment: Mapping[str, str], folder: Path
) -> Sequence[Pipeline]:
    """The pipelines of a table: one for each of its sinks."""
    where = f"pipeline.{name}"
    table = dict(_table(value, where))
    if "sinks" not in table:
        return [_pipeline(name, table, environment, folder)]
    sinks = table.pop("sinks")
    if "sink" in table:
        raise ConfigError(f"{where}: sink is one, sinks are several: remove one of the two")
    if not isinstance(sinks, list) or not sinks:
        raise ConfigError(f"{where}.sinks: expected tables, each [[{where}.sinks]] with a kind")
    kinds = [str(_table(sink, f"{where}.sinks").get("kind", "sink")) for sink in sinks]
    visits = {"visits": table.pop("visits")} if "pages" in kinds and "visits" in table else {}
    made = []
    for number, (kind, sink) in enumerate(zip(kinds, sinks, strict=True)):
        before = kinds[:number].count(kind)
        of_sink = f"{name}-{kind}{f'-{before + 1}' if before else ''}"
        own = {**table, **(visits if kind == "pages" else {}), "sink": sink}
        made.append(replace(_pipeline(of_sink, own, environment, folder), table_name=name))
    return made


def _pipeline(name: str, value: Any, environment: Mapping[str, str], folder: Path) -> Pipeline:
    where = f"pipeline.{name}"
    if not _NAME.match(name):
        raise ConfigError(
            f"{where}: a name has 1 to 40 characters of a-z, 0-9, '-' and '_', and begins with a"
            " letter or a digit"
        )
    table = dict(_table(filled(value, where, environment), where))
    known(table, [each.name for each in fields(Pipeline) if each.name not in _NO_KEYS], where)
    if "sink" not in table:
        raise ConfigError(f'{where}: missing: sink = {{kind = "files", path = "…"}}')
    stages = read_stages(table.pop("stage", []), f"{where}.stage", folder)
    made = {key: _READ[key](table[key], f"{where}.{key}") for key in table}
    made["sink"] = _placed(made["sink"], folder)
    pipeline = Pipeline(name=name, stage=stages, folder=str(folder), **made)
    _check_stages(pipeline, where)
    return _with_memory(pipeline, where)


def _with_memory(pipeline: Pipeline, where: str) -> Pipeline:
    """Return the pipeline with the stage that finds out whether a page has changed."""
    sink = pipeline.sink
    if not isinstance(sink, PagesSink):
        if pipeline.visits is not None:
            raise ConfigError(f'{where}.visits: only pages of a sink of kind = "pages" are visited')
        return pipeline
    if pipeline.visits is not None and len(pipeline.name) > LONGEST_NAME:
        raise ConfigError(
            f"{where}: the name of a pipeline with visits has at most {LONGEST_NAME} characters"
        )
    return replace(pipeline, stage=memory_stages(sink, pipeline.stage, where))


def _is_of_a_document(page: Delivered) -> bool:
    """Return whether a result says how the document of its URL is: not an error, not 304."""
    return page.method == "GET" and (
        page.status_code // 100 == _SUCCESS or page.status_code in GONE
    )


def _check_stages(pipeline: Pipeline, where: str) -> None:
    changing = next((spec.label for spec in pipeline.stage if spec.changes_rows), "")
    if changing and isinstance(pipeline.sink, FilesSpec) and pipeline.sink.format == "warc.gz":
        raise ConfigError(
            f"{where}: WARC files hold pages as they were, and the stage {changing} makes something"
            ' else of them: remove it, or choose another format, such as "parquet"'
        )
    hostile = next((spec.label for spec in pipeline.stage if spec.must_be_contained), "")
    if hostile and not (pipeline.worker_count and pipeline.memory_mb):
        key = "memory_mb" if pipeline.worker_count else "workers"
        raise ConfigError(
            f"{where}.{key}: the stage {hostile} runs only in worker processes whose memory is"
            f" limited, because some pages take gigabytes or minutes: remove {key} = 0"
        )
    if pipeline.expect and not pipeline.stage:
        raise ConfigError(f"{where}.expect: there is no stage that makes fields")


def _source(value: Any, where: str) -> str:
    if not re.fullmatch(r"requisites|crawled(_[A-Za-z0-9._-]{1,200})?", _text(value, where)):
        raise ConfigError(f'{where}: expected "crawled", "crawled_" and an appid, or "requisites"')
    return str(value)


def _start(value: Any, where: str) -> str | datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date) or value not in ("earliest", "latest"):
        raise ConfigError(f'{where}: expected "earliest", "latest" or a time: 2026-11-01T00:00:00Z')
    return str(value)


def _where(value: Any, where: str) -> Where:
    return Where.read(_table(value, where), where)


def _sink(value: Any, where: str) -> SinkConfig:
    table = dict(_table(value, where))
    kind = table.pop("kind", None)
    if kind not in _SINKS:
        return read_plugin(kind, table, where, ours=_SINKS)
    return _SINKS[kind](table, where)


def _placed(sink: SinkConfig, folder: Path) -> SinkConfig:
    """Return the sink; a relative path in it begins in the folder of the file."""
    if isinstance(sink, FilesSpec):
        return sink.placed(folder)
    if isinstance(sink, SqlSpec | LakeSpec):
        return replace(sink, url=in_folder(sink.url, folder))
    if isinstance(sink, SearchSpec) and sink.ca:
        return replace(sink, ca=in_folder(sink.ca, folder))
    return sink


def _found(sink: SinkConfig, catalogs: Mapping[str, Mapping[str, str]], where: str) -> SinkConfig:
    return in_catalog(sink, catalogs, where) if isinstance(sink, IcebergSpec) else sink


_READ: Mapping[str, Callable[[Any, str], Any]] = {
    "source": _source,
    "start": _start,
    "where": _where,
    "respect": _some_of([ban.value for ban in BodyBan]),
    "sink": _sink,
    "edition": _whole(1, 1_000_000),
    "repeats": _whole(0, 10_000_000),
    "keep_secrets": _flag,
    "stop_after_undelivered": _whole(0, 1_000_000_000),
    "workers": _whole(0, 256),
    "timeout": lambda value, where: read_seconds(value, where, least=1, most=3_600),
    "memory_mb": lambda value, where: 0 if value == 0 else _whole(256, 1 << 20)(value, where),
    "expect": read_expect,
    "visits": read_visits,
    "on_gap": one_of(("skip", "stop")),
}
_SINKS: Mapping[str, Callable[[dict[str, Any], str], SinkConfig]] = {
    "files": read_files,
    "delta": read_delta,
    "iceberg": read_iceberg,
    "sql": read_sql,
    "kafka": read_kafka,
    "search": read_search,
    "pages": read_pages,
}
