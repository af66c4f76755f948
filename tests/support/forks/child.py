"""Steps by which a fork becomes a program of this project."""

from __future__ import annotations

import gc
import os
import runpy
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from crawlstream.boot import failpoints
from crawlstream_extract.workers.tether import tie_to


@dataclass(frozen=True, slots=True)
class Begun:
    """How a program was begun."""

    argv: Sequence[str]
    """The name of a module, and its arguments."""
    env: Mapping[str, str]
    folder: str
    out: str
    """A file to whose end it writes."""
    err: str
    safe_path: bool = False
    """Leaves the folder out of the path, as ``python -P`` does."""


class _Replaced(BaseException):
    """The program becomes another module, as by ``python -P -m``."""


def be(program: Begun) -> None:
    """Run a program, in a process that was just forked."""
    tie_to(os.getppid())
    # Imported objects stay: collections that look through them would cost each fork more.
    gc.freeze()
    os.setsid()
    for number, file in ((1, program.out), (2, program.err)):
        told = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.dup2(told, number)
        os.close(told)
    env, (module, *arguments) = program.env, program.argv
    os.environ.clear()
    os.environ.update(env)
    failpoints.set_up(env.get("FAILPOINT", ""))
    time.tzset()
    os.chdir(program.folder)
    sys.path[:0] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    if not program.safe_path:
        sys.path.insert(0, program.folder)
    os.execv = cast("Any", _hand_over)
    try:
        _run(module, arguments)
    except _Replaced as replaced:
        if not program.safe_path:
            sys.path.remove(program.folder)
        _run(*replaced.args)


def _run(module: str, arguments: Sequence[str]) -> None:
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _hand_over(
    path: str, argv: Sequence[str], execv: Callable[..., NoReturn] = os.execv
) -> NoReturn:
    """Replace the program; another module is run here, as importing all again takes 1 s."""
    if path == sys.executable and (*argv[1:3],) == ("-P", "-m"):
        raise _Replaced(argv[3], argv[4:])
    execv(path, argv)
