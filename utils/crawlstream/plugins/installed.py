"""Installed plugins: packages that declare them as entry points."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, TypeVar

from crawlstream.errors import ConfigError


class NamedPlugin(Protocol):
    """An object that an entry point leads to."""

    name: str


T = TypeVar("T", bound=NamedPlugin)


def load(group: str, make: Callable[[Any], T]) -> list[T]:
    """The plugins of a group, each made of what its entry point names.

    ConfigError names the package and what is wrong: the plugin cannot be made, its name is not that
    of its entry point, or another package has a plugin of this name.
    """
    made: dict[str, T] = {}
    packages: dict[str, str] = {}
    for entry in entry_points(group=group):
        plugin, package = _made(entry, make), _package_of(entry)
        if entry.name in made:
            raise ConfigError(
                f"two packages have a plugin {entry.name!r} of {group}: {packages[entry.name]} and"
                f" {package}; uninstall one of them"
            )
        made[entry.name], packages[entry.name] = plugin, package
    return list(made.values())


def find(group: str, name: str) -> tuple[Any, str] | None:
    """Return the object of an entry point, and its package; None: there is none.

    ConfigError: it cannot be loaded, or two packages have one of this name.
    """
    found = [entry for entry in entry_points(group=group) if entry.name == name]
    if len(found) > 1:
        raise ConfigError(
            f"two packages have a plugin {name!r} of {group}:"
            f" {' and '.join(map(_package_of, found))}; uninstall one of them"
        )
    for entry in found:
        try:
            return entry.load(), _package_of(entry)
        except Exception as error:
            raise ConfigError(
                f"the plugin {name!r} of {group} (package {_package_of(entry)}) cannot be loaded"
                f" from {entry.value!r}: {type(error).__name__}: {error}"
            ) from error
    return None


def _made(entry: EntryPoint, make: Callable[[Any], T]) -> T:
    where = f"the plugin {entry.name!r} of {entry.group} (package {_package_of(entry)})"
    try:
        plugin = make(entry.load())
    except Exception as error:
        raise ConfigError(
            f"{where} cannot be loaded from {entry.value!r}: {type(error).__name__}: {error}"
        ) from error
    name = getattr(plugin, "name", None)
    if name != entry.name:
        raise ConfigError(
            f"{where}: its entry point is called {entry.name!r}, but {entry.value} has the name"
            f" {name!r}; make both the same"
        )
    return plugin


def _package_of(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "unknown"
