"""docs/keys.md and the scripts: no key is made that the page does not list."""

from __future__ import annotations

import inspect
import re
from importlib.resources import files

import pytest

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from support.frontier.audit import PERMANENT, documented, is_documented

_LUA = files("crawlstream.frontier") / "lua"
_SOURCES = {
    file.name: file.read_text()
    for folder in (_LUA, _LUA / "includes")
    for file in folder.iterdir()
    if file.name.endswith(".lua")
}


@pytest.mark.parametrize("name", sorted(_SOURCES))
def test_every_key_of_a_script_is_on_the_page(name: str) -> None:
    """Each name that a script appends to its prefix begins a documented key."""
    beginnings = [re.split(r"[<]", key)[0] for key in documented()]
    for literal in re.findall(r"\bP \.\. '([^']+)'", _SOURCES[name]):
        if not literal.startswith("wake:"):  # a channel
            assert literal in beginnings, (name, literal)


def test_scripts_make_keys_from_their_prefix_only() -> None:
    """No script takes a key from its arguments or writes one by hand."""
    for name, source in _SOURCES.items():
        code = re.sub(r"--.*", "", source)
        assert "{cs" not in code, name
        assert len(re.findall(r"KEYS\[", code)) <= 1, name


def test_every_documented_key_is_made_somewhere() -> None:
    """The page lists nothing that does not exist (any more)."""
    made = set(re.findall(r"\bP \.\. '([^']+)'", "".join(_SOURCES.values())))
    made |= {re.split(r"[<]", name)[0] for name in _names_of_keys_module()}
    for key in documented():
        assert re.split(r"[<]", key)[0] in made, key


def test_every_name_of_the_keys_module_is_on_the_page() -> None:
    """What Python names itself is documented like what scripts name."""
    for name in _names_of_keys_module():
        assert is_documented(name), name
    assert {"m", "positions", "outbox"} <= PERMANENT


def _names_of_keys_module() -> set[str]:
    """What the methods of FrontierKeys answer, without prefix, for made-up arguments."""
    keys = FrontierKeys()
    made_up = {"crawl": CrawlKey("s", "a", "c")}
    names = set()
    for name, method in inspect.getmembers(keys, inspect.ismethod):
        if name[0] == "_" or name == "wake_channel":
            continue
        parameters = inspect.signature(method).parameters
        key = method(*(made_up.get(parameter, f"<{parameter}>") for parameter in parameters))
        if isinstance(key, str) and key.startswith(keys.tag):
            names.add(key.removeprefix(keys.tag))
    return names
