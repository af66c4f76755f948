"""The webs that crawlers are measured on, each served for the length of a block.

What says how many pages were asked for is the site's own count, or its access log.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from lib import mixed_web, tls_web, web
from lib.processes import python_path, running

from crawlstream.errors import SetupError
from crawlstream_cli.local.ports import free_block

SEEDS = 50
REAL_HOSTS = 20
_SYSTEM_PROGRAMS = "/usr/sbin:/usr/local/sbin:/opt/homebrew/bin"
_DOCS = "python3*/html/index.html"
"""Below /usr/share/doc: where Debian's python3-doc has it."""
_NGINX = """daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 4096; }}
http {{
    types {{ text/html html htm; text/plain txt; text/css css; text/javascript js; }}
    log_format asked '$server_addr $request_uri $status $body_bytes_sent';
    access_log access.log asked;
    sendfile on;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {{ {listen} root "{docs}"; index index.html; }}
}}
"""


@dataclass(frozen=True, slots=True)
class Web:
    """Shape of the pages of a web."""

    links: int = web.LINKS
    size: int = web.PAGE_SIZE
    is_mixed: bool = False
    is_real: bool = False
    """A documentation tree; then the other fields mean nothing."""
    tls: str = ""
    """Behind TLS: ``keeps`` or ``closes`` connections."""


@dataclass(frozen=True, slots=True)
class ServedWeb:
    """A web that is there."""

    seeds: Sequence[str]
    """They lead everywhere."""
    hosts: Sequence[str] | None
    """Hosts that links may lead to; None: it has no others."""
    served: Callable[[], int]
    """How many pages have been asked for so far; OSError before it serves any."""
    sent: Callable[[], int] = lambda: 0
    """Bytes of their bodies so far; 0 where all pages have one size."""


@asynccontextmanager
async def serving(pages: Web, folder: str) -> AsyncIterator[ServedWeb]:
    """A web on a free port; SetupError if it needs what the machine lacks."""
    port = free_block(2)
    argv, served_web = _real(folder, port) if pages.is_real else _made_up(pages, port)
    async with running_web(argv, served_web, folder):
        yield served_web


@asynccontextmanager
async def running_web(
    argv: Sequence[str], served_web: ServedWeb, folder: str
) -> AsyncIterator[None]:
    """A web that a program serves for the length of the block."""
    with running(*argv, folder=folder, PYTHONPATH=python_path("benchmarks")):
        while not await asyncio.to_thread(answers, served_web):
            await asyncio.sleep(0.05)
        yield


def answers(served_web: ServedWeb) -> bool:
    """Return whether a web is there."""
    try:
        served_web.served()
    except OSError:
        return False
    return True


def _made_up(pages: Web, port: int) -> tuple[Sequence[str], ServedWeb]:
    if pages.tls:
        return _secret(pages, port)
    program = mixed_web if pages.is_mixed else web
    argv = (sys.executable, str(program.__file__), str(port), str(pages.links), str(pages.size))
    urls = [program.url(port, host, 0) for host in range(SEEDS)]
    return argv, replace(counting_web(port), seeds=urls)


def _secret(pages: Web, port: int) -> tuple[Sequence[str], ServedWeb]:
    numbers = (str(port), str(pages.links), str(pages.size))
    hosts = tls_web.KEPT_HOSTS if pages.tls == "keeps" else tls_web.CLOSED_HOSTS
    urls = [tls_web.url(port, host, page) for host in range(hosts) for page in range(SEEDS)]
    argv = (sys.executable, str(tls_web.__file__), *numbers, pages.tls)
    return argv, replace(counting_web(port + 1), seeds=urls[: SEEDS * tls_web.KEPT_HOSTS])


def counting_web(port: int, path: str = "served") -> ServedWeb:
    """The synthetic web, or one that counts its pages as that does."""

    def served() -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
            return int(answer.read())

    return ServedWeb(seeds(port), None, served)


def seeds(port: int, count: int = SEEDS) -> Sequence[str]:
    """Return seeds of ``count`` hosts of the synthetic web; they lead everywhere."""
    return [web.url(port, host, 0) for host in range(count)]


def _real(folder: str, port: int) -> tuple[Sequence[str], ServedWeb]:
    nginx, docs = find_nginx(), find_docs()
    root = Path(folder, "nginx")
    root.mkdir(exist_ok=True)
    log = root / "access.log"
    log.unlink(missing_ok=True)
    hosts = [f"127.3.0.{1 + number}" for number in range(REAL_HOSTS)]
    listen = " ".join(f"listen {host}:{port};" for host in hosts)
    (root / "nginx.conf").write_text(_NGINX.format(listen=listen, docs=docs))
    argv = (nginx, "-p", str(root), "-c", "nginx.conf", "-e", "error.log")
    urls = [f"http://{host}:{port}/index.html" for host in hosts]
    return argv, ServedWeb(
        urls,
        hosts,
        served=lambda: log.read_bytes().count(b"\n"),
        sent=lambda: sum(int(line.rpartition(b" ")[2]) for line in log.read_bytes().splitlines()),
    )


def find_nginx() -> str:
    """The program; SetupError."""
    path = os.pathsep.join((os.environ.get("PATH", ""), _SYSTEM_PROGRAMS))
    found = shutil.which("nginx", path=path)
    if found is None:
        raise SetupError("nginx is missing, which serves the real web: apt-get install nginx")
    return found


def find_docs() -> Path:
    """The documentation tree that is the real web; SetupError."""
    if named := os.environ.get("BENCH_DOCS"):
        found = [Path(named, "index.html")]
    else:
        found = sorted(Path("/usr/share/doc").glob(_DOCS))
    if not found or not found[-1].exists():
        raise SetupError(
            "a documentation tree is missing, which is the real web: apt-get install python3-doc,"
            " or name a folder that has an index.html in BENCH_DOCS"
        )
    return found[-1].parent.resolve()
