"""The variables that settings are read from, and what is said of settings under these names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import AliasChoices

from crawlstream.boot.settings import Settings


def variables_of(field: str) -> Sequence[str]:
    """The variables that set a field of :class:`Settings`, the one that wins first."""
    alias = Settings.model_fields[field].validation_alias
    return [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [field]


def setting_names() -> frozenset[str]:
    """The variables that :class:`Settings` reads."""
    return frozenset(name for field in Settings.model_fields for name in variables_of(field))


def told(settings: Settings, *fields: str) -> Mapping[str, str]:
    """What these settings are, each under the first of its variables."""
    return {variables_of(field)[0]: str(getattr(settings, field)) for field in fields}
