"""The budget of a page: whatever a response of 2 MiB holds, it costs a second of CPU, 100 MiB.

Each response is handled by a process of its own, forked from one that has all modules loaded. The
second is one of a core of 2026; a machine that takes longer for a known piece of work, because it
is older or because others use it, may take longer for a page.
``--log-cli-level=INFO`` shows what each of them costs.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from operator import itemgetter
from pathlib import Path

CPU_S = 1.0
MEMORY_MIB = 100
AGAIN = 3
"""Times that a page over the budget is measured again."""
KNOWN_WORK_S = 0.045
"""CPU seconds of :data:`PROGRAM`'s ``known_work`` on such a core, which only pages over the budget
are compared with."""

log = logging.getLogger(__name__)

PROGRAM = """
import json, logging, os, resource, sys, time
from pathlib import Path
import structlog
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
logging.disable()
from support.expensive_pages import ExpensivePage, expensive_pages, what_becomes_of

def known_work():
    began = time.process_time()
    for number in range(200_000):
        {str(number): [number]}
    return time.process_time() - began

def peak():
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)

folder = Path(sys.argv[1])
pages = expensive_pages()
what_becomes_of(ExpensivePage(b"<a href=/x>"), folder)
for name in sys.argv[4:] or pages:
    expensive = pages[name]
    read, write = os.pipe()
    child = os.fork()
    if not child:
        before, began = peak(), time.process_time()
        end = what_becomes_of(expensive, folder)
        cpu_s, mib = time.process_time() - began, peak() - before
        slower = max(1, known_work() / float(sys.argv[2])) if cpu_s > float(sys.argv[3]) else 1
        os.write(write, json.dumps([name, end, cpu_s / slower, mib]).encode())
        os._exit(0)
    os.close(write)
    print(os.read(read, 4096).decode() or json.dumps([name, "died", 0, 0]), flush=True)
    os.close(read)
    os.waitpid(child, 0)
"""


def costs(folder: Path, *names: str) -> dict[str, tuple[str, float, float]]:
    """How pages ended, their CPU seconds, and the MiB that they took; of all, or of some."""
    program = (sys.executable, "-W", "ignore", "-c", PROGRAM)
    ran = subprocess.run(
        [*program, str(folder), str(KNOWN_WORK_S), str(CPU_S), *names],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    lines = map(json.loads, ran.stdout.splitlines())
    return {name: (end, cpu_s, mib) for name, end, cpu_s, mib in lines}


def too_expensive(found: dict[str, tuple[str, float, float]]) -> list[str]:
    """The names of those beyond the budget."""
    return [name for name, (_, cpu_s, mib) in found.items() if cpu_s > CPU_S or mib > MEMORY_MIB]


def test_no_page_costs_more_than_its_budget(tmp_path: Path) -> None:
    """Each is a result, a redirect, or fails with a reason; none takes the crawler along."""
    found = costs(tmp_path)
    log.info("\n".join(f"{cost} {name}" for name, cost in sorted(found.items(), key=itemgetter(1))))
    ends = {end for end, _cpu_s, _mib in found.values()}
    assert ends == {"done", "redirected", "too_large", "bad_encoding"}
    for _ in range(AGAIN):
        # Others may have come and gone amid one of them; pages over the budget stay so.
        if expensive := too_expensive(found):
            found |= costs(tmp_path, *expensive)
    assert not too_expensive(found)
