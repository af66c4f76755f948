"""docs/keys.md, the scripts and ``keys.py``: all three have the same keys."""

from __future__ import annotations

import inspect
import re

import pytest

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream_frontier import sources
from support.frontier.audit import PERMANENT, documented, is_documented
from support.frontier.lua import LUA

_KEYS_FILE = "includes/keys.lua"
_CHANNELS = {"wake_tend", "wake_homes", "wake_shelf", "wake_channel"}


def _code_of(file: str) -> str:
    return re.sub(r"--.*", "", (LUA / file).read_text())


def _patterns() -> dict[str, str]:
    """Keys of ``keys.lua`` by their names, as the page writes them."""
    lines = re.findall(r"\bK\.(\w+).*?P \.\. (.*?)(?: end)?$", _code_of(_KEYS_FILE), re.MULTILINE)
    return {
        name: "".join(
            part.strip("'") if "'" in part else f"<{part}>" for part in made.split(" .. ")
        )
        for name, made in lines
    }


def test_every_key_of_the_scripts_is_on_the_page() -> None:
    """The page has them as they are made, and nothing that does not exist (any more)."""
    keys = {made for name, made in _patterns().items() if name not in _CHANNELS}
    listed = {name.replace("<c>/<priority>", "<tag>") for name in documented()}
    assert not keys - listed
    assert not listed - keys - _names_of_keys_module()


@pytest.mark.parametrize(
    "file", sorted(path.relative_to(LUA).as_posix() for path in LUA.rglob("*.lua"))
)
def test_scripts_make_keys_in_one_place_only(file: str) -> None:
    """No script takes a key from its arguments, or appends to the prefix by itself."""
    if file != _KEYS_FILE:
        assert not re.findall(r"\bKEYS\b|\bP\b|\{cs", _code_of(file))


@pytest.mark.parametrize("operation", sources.operations())
def test_keys_are_written_where_they_are_made(operation: str) -> None:
    """Redis is given no name that only ``keys.lua`` knows."""
    assert not re.findall(r"\bK\b", re.sub(r"--.*", "", sources.source_of(operation)))


def test_no_key_is_made_for_nothing() -> None:
    """Each key of ``keys.lua`` is used."""
    used = set[str]()
    for path in LUA.rglob("*.lua"):
        if path.name != "keys.lua":
            used |= set(re.findall(r"\bK\.(\w+)", path.read_text()))
    assert used == set(_patterns())


def test_every_name_of_the_keys_module_is_on_the_page() -> None:
    """Keys that Python itself names are documented like those that scripts name."""
    for name in _names_of_keys_module():
        assert is_documented(name), name
    assert {"m", "positions", "outbox"} <= PERMANENT


def test_a_key_has_one_name_in_both_languages() -> None:
    """Uses equal key names in Python and Lua."""
    names = _patterns()
    alike = set(names) & set(dir(FrontierKeys))
    assert {"meta", "robots", "wake_channel"} <= alike
    for name in alike:
        method = getattr(FrontierKeys(), name)
        arguments = [f"<{parameter}>" for parameter in inspect.signature(method).parameters]
        assert method(*arguments).removeprefix(FrontierKeys().tag) == names[name]


def _names_of_keys_module() -> set[str]:
    """Answers of the methods of FrontierKeys, without prefix, for made-up arguments."""
    keys = FrontierKeys()
    made_up = {"crawl": CrawlKey("s", "a", "c")}
    names = set()
    for name, _function in inspect.getmembers(FrontierKeys, inspect.isfunction):
        if name[0] == "_" or name in _CHANNELS:
            continue
        method = getattr(keys, name)
        parameters = inspect.signature(method).parameters
        key = method(*(made_up.get(parameter, f"<{parameter}>") for parameter in parameters))
        if isinstance(key, str) and key.startswith(keys.tag):
            names.add(key.removeprefix(keys.tag))
    return names
