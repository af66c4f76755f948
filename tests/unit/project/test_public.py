"""Names that plugins, spiders and tests of users import: listed, with all that docs use."""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from support.documented import DOCS

MODULES = (
    "crawling",
    "crawling.addon",
    "crawling.spiders.redis_spider",
    "crawling.testing",
    "crawlstream.plugins",
    "pipeline_service.contract",
    "crawlstream.plugins.sinks",
    "crawlstream_frontier.testing",
    "pipeline_service",
)
BY_CONTEXT = {
    "frontier": ("crawls", "crawl_state"),
    "editor": ("read", "set_rule", "remove_rule", "block", "unblock"),
    "keys": ("tag",),
}
"""Fields of ``crawlstream.plugins.Context`` that ``docs/plugins.md`` promises."""

OURS = re.compile(
    r"(crawling|crawlstream|kafka_monitor|redis_monitor|rest_service|pipeline_service)(\.|$)"
)
LIST = Path(__file__).with_name("public.txt")
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]


def names_of(module: str) -> list[str]:
    """The public names of a module."""
    loaded = import_module(module)
    return list(getattr(loaded, "__all__", ()))


def members() -> Iterator[str]:
    """Each public member as a line: its name, and its signature where it has one."""
    for module in MODULES:
        for name in sorted(names_of(module)):
            yield from told(f"{module}.{name}", getattr(import_module(module), name))
    context = import_module("crawlstream.plugins").Context
    for field, names in BY_CONTEXT.items():
        (kind,) = {hint for name, hint in hints(context) if name == field}
        for name in names:
            yield line(f"crawlstream.plugins.Context.{field}.{name}", member(kind, name))


def hints(kind: type) -> list[tuple[str, Any]]:
    """The annotated fields of a class, with the classes that they are of."""
    module = vars(inspect.getmodule(kind))
    return [(name, module.get(str(text))) for name, text in kind.__annotations__.items()]


def told(path: str, thing: Any) -> Iterator[str]:
    """Describe a function, or a class with all its public members of this project."""
    yield line(path, thing)
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        ours = [base for base in thing.__mro__ if OURS.match(base.__module__)]
        names = {name for base in ours for name in (*vars(base), *inspect.get_annotations(base))}
        for name in sorted(name for name in names if not name.startswith("_")):
            yield line(f"{path}.{name}", member(thing, name))


def member(kind: type, name: str) -> Any:
    """Return the attribute of a class; None for a field that each object sets."""
    return inspect.getattr_static(kind, name, None)


def line(path: str, thing: Any) -> str:
    """Describe a member."""
    plain = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
    if inspect.isfunction(plain):
        word = "async " if inspect.iscoroutinefunction(plain) else ""
        return f"{word}{path}{plainly(inspect.signature(plain))}"
    if inspect.isclass(plain) and not issubclass(plain, Exception):
        return f"class {path}{signature(plain)}"
    return path


def signature(kind: type) -> str:
    """Describe the constructor, if this project defines it."""
    init = inspect.getattr_static(kind, "__init__")
    ours = inspect.isfunction(init) and OURS.match(init.__module__)
    return plainly(inspect.signature(init)) if ours else ""


def plainly(signature: inspect.Signature) -> str:
    """A signature, without quotation marks around annotations and without addresses of objects."""
    text = re.sub(r"<object object at \w+>", "...", str(signature))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def test_public_members_are_those_of_the_list() -> None:
    """Each change also changes the list, and is described in CHANGELOG.md."""
    found = "".join(f"{each}\n" for each in members())
    if os.environ.get("UPDATE_DOCS") == "1":
        LIST.write_text(found, encoding="utf-8")
    assert LIST.read_text(encoding="utf-8") == found, (
        "the public members have changed: if they shall, run UPDATE_DOCS=1 ./crawlstream test -n 0"
        " tests/unit/project/test_public.py, and tell users in CHANGELOG.md"
    )


def test_public_members_are_explained() -> None:
    """Each name has a docstring, and the documentation has each name."""
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for module in MODULES:
        for name in names_of(module):
            assert getattr(import_module(module), name).__doc__, f"{module}.{name}"
            assert name in pages, f"{module}.{name}"


def imports_of(code: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of all imports from this project; ``*`` for a module itself."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and OURS.match(node.module or ""):
            yield from ((node.module or "", alias.name) for alias in node.names)
        if isinstance(node, ast.Import):
            yield from ((alias.name, "*") for alias in node.names if OURS.match(alias.name))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_examples_import_public_members_only(page: Path) -> None:
    """Copied examples import only public names; blocks marked ``py`` are not to be copied."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    used = {each for code in blocks for each in imports_of(code)}
    known = {(module, name) for module in MODULES for name in [*names_of(module), "*"]}
    assert not used - known


def test_an_internal_import_in_an_example_would_be_seen() -> None:
    """Finds both forms of import, and leaves out other packages."""
    code = "import json\nimport crawlstream.wire.jsontext\nfrom crawling.page.page import Page\n"
    assert set(imports_of(code)) == {
        ("crawlstream.wire.jsontext", "*"),
        ("crawling.page.page", "Page"),
    }
