"""The stages of a pipeline, one after the other, over one page."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawlstream.errors import ConfigError
from crawlstream.model.delivered import Delivered
from pipeline_service.spec.quality.counts import QualityCounts
from pipeline_service.spec.stages import ChainPlan, StageSpec
from pipeline_service.stages.documents import Documents
from pipeline_service.stages.draft import STAGE_FAILED, Draft, Filtered, PageRefused, ReadyStage
from pipeline_service.stages.fields import Clean, Fields
from pipeline_service.stages.filter import Filter
from pipeline_service.stages.function import Function, described
from pipeline_service.stages.language import Language
from pipeline_service.stages.maintext import MainText
from pipeline_service.stages.markdown import Markdown
from pipeline_service.stages.metadata import Metadata
from pipeline_service.stages.minhash import MinHash
from pipeline_service.stages.page import Page, page_of
from pipeline_service.stages.signature import Signature
from pipeline_service.stages.validate import Validate


@dataclass(frozen=True, slots=True)
class MadeRow:
    """Row that stages have made."""

    fields: Mapping[str, Any]
    number: int | None = None
    """Number of an item; None: the page itself."""
    errors: Sequence[str] = ()
    """Errors of invalid fields, as sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOutcome:
    """Outcome of one page."""

    rows: Sequence[MadeRow] | None = None
    """None: the page as it is, unless one of the next two says that it is not stored."""
    filtered: str = ""
    """Why it is not wanted, as a code."""
    reason: str = ""
    """Why it is undelivered, as a code."""
    errors: Sequence[str] = ()
    """Errors as sentences."""
    stage: str = ""
    """Which stage has refused it."""
    quality: QualityCounts | None = None
    """Quality of its items, where they are counted."""
    times: Sequence[float] = ()
    """Times by the monotonic clock: before the first stage, and after each that has run."""


class Chain:
    """Stages that are ready to run; ConfigError if one cannot be made."""

    def __init__(self, plan: ChainPlan) -> None:
        if plan.folder and plan.folder not in sys.path:
            sys.path.insert(0, plan.folder)
        self._steps = [_made(spec, plan.counted) for spec in plan.stages]
        self._labels = [spec.label for spec in plan.stages]
        self._validate = next((s for s in self._steps if isinstance(s, Validate)), None)
        self._changes_rows = any(spec.changes_rows for spec in plan.stages)
        kinds = {spec.kind for spec in plan.stages}
        self._counts = bool(plan.counted) or not kinds.isdisjoint({"python", "validate"})
        self._counted = plan.counted

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the items, if there is one."""
        return None if self._validate is None else self._validate.schema

    def run(self, result: Delivered) -> PageOutcome:
        """Return the outcome of a page; MemoryError is the only error that is raised."""
        if self._validate is not None:
            self._validate.quality = QualityCounts()
        times: list[float] = []
        drafts: list[Draft] = []
        told: dict[str, Any] = {}
        try:
            drafts = self._drafts(page_of(result), times)
        except Filtered as error:
            told = {"filtered": str(error)}
        except PageRefused as error:
            told = {"reason": error.reason, "errors": error.errors, "stage": error.stage}
        if drafts and self._changes_rows:
            told = {"rows": [MadeRow(each.fields, each.number, each.errors) for each in drafts]}
        return PageOutcome(**told, times=times, quality=self._quality(drafts))

    def _drafts(self, page: Page, times: list[float]) -> list[Draft]:
        """Return the drafts that the stages make of a page; append their times."""
        drafts = [Draft()]
        times.append(time.monotonic())
        for label, step in zip(self._labels, self._steps, strict=True):
            try:
                drafts = step.run(page, drafts)
            except (Filtered, PageRefused, MemoryError):
                raise
            except (Exception, SystemExit) as error:
                raise PageRefused(STAGE_FAILED, label, [f"{label}: {described(error)}"]) from error
            finally:
                times.append(time.monotonic())
        return drafts

    def _quality(self, drafts: Sequence[Draft]) -> QualityCounts | None:
        if not self._counts:
            return None
        if self._validate is not None:
            return self._validate.quality
        quality = QualityCounts()
        for draft in drafts:
            quality.count(draft.fields, self._counted, ())
        return quality


def _made(spec: StageSpec, counted: Sequence[str]) -> ReadyStage:
    make: Mapping[str, Callable[[], ReadyStage]] = {
        "where": lambda: Filter(spec.options),
        "page": Metadata,
        "text": lambda: MainText(spec.options),
        "markdown": lambda: Markdown(spec.options),
        "document": lambda: Documents(spec.options),
        "language": lambda: Language(spec.options),
        "minhash": lambda: MinHash(spec.options),
        "signature": lambda: Signature(spec.options),
        "fields": lambda: Fields(spec.options),
        "clean": Clean,
        "validate": lambda: Validate(spec.options, counted),
        "python": lambda: Function(str(spec.options["call"]), spec.label),
    }
    try:
        return make[spec.kind]()
    except ConfigError as error:
        raise ConfigError(f"stage {spec.label}: {error}") from error
