"""The variables that settings are read from, and what is said of settings under these names."""

from __future__ import annotations

from collections.abc import Mapping

from crawlstream.boot.settings import Settings


def setting_names() -> frozenset[str]:
    """The variables that :class:`Settings` reads."""
    return frozenset(
        name for field in Settings.model_fields for name in Settings.variables_of(field)
    )


def environment_without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which every setting has its default, whatever the user's says."""
    named = {name for name in environment if name.startswith("CRAWLSTREAM_")} | setting_names()
    kept = {"CRAWLSTREAM_JARS", "CRAWLSTREAM_DEBUG"}
    return {name: value for name, value in environment.items() if name not in named - kept}


def values_of(settings: Settings, *fields: str) -> Mapping[str, str]:
    """Return the values of these settings, each under the first of its variables."""
    return {Settings.variables_of(field)[0]: str(getattr(settings, field)) for field in fields}
