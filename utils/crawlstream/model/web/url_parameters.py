"""Parameters of URLs that a crawl drops from links, or keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ANY_END = "*"
"""At the end of a name: all names that begin so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Names of parameters as URLs have them, some with ``ANY_END``; ``keep`` prevails."""

    keep: tuple[str, ...] = ()
    """They are never dropped, and the waste guard does not judge by them."""
    drop: tuple[str, ...] = ()
    """They are dropped from links before these are followed."""


def parameters_in(fields: Mapping[str, Sequence[str] | None]) -> Parameters | None:
    """Return the names of an object that fits the schema; None if it has none."""
    keep, drop = (tuple(fields.get(name) or ()) for name in ("keep", "drop"))
    return Parameters(keep=keep, drop=drop) if keep or drop else None


def parameter_fields(names: Parameters) -> dict[str, list[str]]:
    """Return the object of some names, for ``parameters_in``; equal names are equal objects."""
    told = {"keep": [*names.keep], "drop": [*names.drop]}
    return {field: listed for field, listed in told.items() if listed}
