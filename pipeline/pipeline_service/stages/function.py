"""The stage ``python``: a function of the user makes items of a page."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from importlib import import_module
from typing import Any

from crawlstream.errors import ConfigError
from crawlstream_extract.plain import plain_fields
from pipeline_service.spec.stages import RESERVED
from pipeline_service.stages.draft import TOO_LARGE, Draft, Filtered, PageRefused
from pipeline_service.stages.page import Page, with_fields

MOST_ITEMS = 10_000
"""Largest number of items of one page."""
_LONGEST_ERROR = 500
_OURS = ("pipeline_service", "crawlstream_extract", "importlib")
"""Parts of the names of files other than those of users."""


class Function:
    """Calls it with each row, and takes what it returns for the items of the page."""

    def __init__(self, target: str, label: str) -> None:
        self._call = load(target)
        self._label = label

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """The items."""
        made: list[Draft] = []
        for draft in drafts:
            seen = with_fields(page, draft.fields) if draft.fields else page
            for item in self._items(seen):
                made.append(Draft(item, len(made)))
                if len(made) > MOST_ITEMS:
                    told = f"{self._label}: more than {MOST_ITEMS} items of one page"
                    raise PageRefused(TOO_LARGE, self._label, [told])
        if not made:
            raise Filtered(self._label)
        return made

    def _items(self, page: Page) -> Iterator[dict[str, Any]]:
        returned = self._call(page)
        several = isinstance(returned, list | tuple | Iterator)
        for item in returned if several else (returned,):
            if item is not None:
                yield plain_fields(_mapping(item))


def _mapping(item: object) -> Mapping[str, Any]:
    if is_dataclass(item) and not isinstance(item, type):
        return _checked(asdict(item))
    if hasattr(item, "model_dump"):
        return _checked(item.model_dump())
    if not isinstance(item, Mapping):
        raise TypeError(
            f"it returned {type(item).__name__}: expected a mapping, a list of mappings, or None"
        )
    return _checked(item)


def _checked(item: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in RESERVED:
        if name in item:
            raise ValueError(f"{name!r} belongs to each row: rename this field of the item")
    return item


def load(target: str) -> Callable[[Page], Any]:
    """The function that ``module:name`` names; ConfigError."""
    found = load_any(target)
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise ConfigError(f"{target}: expected a function that is not async")
    function: Callable[[Page], Any] = found
    return function


def load_any(target: str) -> Any:
    """Return the object named by ``module:name``; ConfigError."""
    module, _, path = target.partition(":")
    try:
        found: Any = import_module(module)
    except Exception as error:
        raise ConfigError(
            f"{target} cannot be imported: {described(error)}; modules are looked for in the"
            " folder of the file of the pipelines and in PYTHONPATH"
        ) from error
    for name in path.split("."):
        if not hasattr(found, name):
            raise ConfigError(f"{target}: the module {module} has no {path}")
        found = getattr(found, name)
    return found


def described(error: BaseException) -> str:
    """An error in one line: its kind, its text, and where it was raised."""
    frames: Iterable[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
    place = ""
    for frame in frames:
        if not any(name in frame.filename for name in _OURS):
            place = f" ({frame.filename}:{frame.lineno})"
    text = " ".join(str(error).split())[:_LONGEST_ERROR]
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"
