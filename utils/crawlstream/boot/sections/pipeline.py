"""Settings of the pipelines."""

from __future__ import annotations

from pydantic import Field

from crawlstream.boot.sections.section import Section, new


class PipelineSettings(Section):
    """Pipelines: results delivered to files and stores."""

    pipelines: str = Field("pipelines.toml", validation_alias=new("PIPELINES"), min_length=1)
    """File of the pipelines (TOML)."""
    spool: str = Field("", validation_alias=new("SPOOL"))
    """Directory for files that are not complete yet; default: ``spool`` in ``CRAWLSTREAM_HOME``.
    It needs room for one file of each pipeline and partition."""
