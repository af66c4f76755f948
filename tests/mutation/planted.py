"""A process whose children run tests, each with a bug in one module of the product.

It has imported the slow packages of others once, for all of them. It reads a line of JSON
for each bug: the module, the text that stands there in exactly one place, what is put there
instead, and the arguments of pytest. It answers with a line of what pytest ended with; what turned
the test red is the last line on standard error.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

import pytest

SLOW = (
    *("fastapi", "kafka", "kazoo.client", "lxml.html", "prometheus_client"),
    *("pydantic_settings", "redis.asyncio", "rich.console", "scrapy.crawler", "structlog"),
    *("tldextract", "typer", "twisted.web.client", "uvicorn"),
)

RED_BY = "turned red by "
LONGEST_S = 300
"""A test that waits without end finds nothing: a killed test has not failed."""
PATIENCE_S = 20
"""How long a test waits for what the bug may keep from coming true, where it does not say."""
HOW = (
    *("-x", "-q", "-n", "0", "-p", "no:cacheprovider"),
    *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
)


class _Loader(SourceFileLoader):
    """Reads a module with the bug in it; its bytecode on disk is left alone."""

    def __init__(self, name: str, path: str, change: tuple[str, str]) -> None:
        super().__init__(name, path)
        self._change = change

    def get_code(self, fullname: str) -> CodeType:
        """The compiled module with the bug."""
        right, wrong = self._change
        text = self.get_source(fullname)
        if text is None or text.count(right) != 1:
            raise AssertionError(f"{fullname}: where it is planted has changed: {right}")
        return compile(text.replace(right, wrong), self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds the one module."""

    def __init__(self, module: str, change: tuple[str, str]) -> None:
        self._module = module
        self._change = change
        self.was_asked = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the module, with a loader that plants the bug."""
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            raise AssertionError(f"{fullname} is not a module of ours")
        self.was_asked = True
        loader = _Loader(fullname, spec.origin, self._change)
        return importlib.util.spec_from_file_location(fullname, spec.origin, loader=loader)


class _Noted:
    """The reason of a failure."""

    error = "nothing"

    def pytest_exception_interact(self, call: pytest.CallInfo[object]) -> None:
        """Called by pytest, also where a module of tests cannot be imported."""
        if call.excinfo is not None:
            self.error = call.excinfo.typename


def _run(module: str, change: tuple[str, str], args: Sequence[str]) -> int:
    """Exit code of pytest, whose output goes to standard error."""
    os.dup2(2, 1)
    signal.alarm(LONGEST_S)
    os.environ["TEST_PATIENCE_S"] = str(PATIENCE_S)
    if module in sys.modules:
        raise AssertionError(f"{module} was imported before a bug could be planted")
    finder = _Finder(module, change)
    sys.meta_path.insert(0, finder)
    noted = _Noted()
    code = int(pytest.main([*HOW, *args], plugins=[noted]))
    sys.stderr.write(f"\n{RED_BY}{noted.error}\n")
    return code if finder.was_asked else -1


def main() -> None:
    """Run one child after the other."""
    for name in SLOW:
        importlib.import_module(name)
    for line in sys.stdin:
        module, right, wrong, args = json.loads(line)
        child = os.fork()
        if not child:
            code = 100
            try:
                code = _run(module, (right, wrong), args)
            except BaseException:  # noqa: BLE001  a child must not go on as its parent
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code & 255)
        _, status = os.waitpid(child, 0)
        sys.stderr.flush()
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
