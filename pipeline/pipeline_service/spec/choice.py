"""Choice of pipelines by the names that people type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlstream.errors import ConfigError
from pipeline_service.spec.config import OF_FAILURES, Pipeline


def chosen(pipelines: Mapping[str, Pipeline], names: Sequence[str]) -> Sequence[Pipeline]:
    """Return the named pipelines, all if there are no names; ConfigError for an unknown name.

    The name of a table with several sinks is that of all of them.
    """
    of_tables: dict[str, list[Pipeline]] = {}
    for each in pipelines.values():
        of_tables.setdefault(each.table_name or each.name, []).append(each)
    found: dict[str, Pipeline] = {}
    for name in names:
        whole = name.removesuffix(OF_FAILURES)
        if whole != name and whole in pipelines:
            raise ConfigError(f"{name!r} is run by the pipeline {whole!r}: name that one")
        if name not in pipelines and name not in of_tables:
            raise ConfigError(f"there is no pipeline {name!r}; known: {', '.join(pipelines)}")
        named = [pipelines[name]] if name in pipelines else of_tables[name]
        found |= {each.name: each for each in named}
    return list((found if names else pipelines).values())
