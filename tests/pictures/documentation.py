"""A site of documentation as there are thousands: static pages that link each other."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from crawlstream_cli.local.ports import free_block

ROOT = Path(__file__).parents[2]


def built_in(folder: Path) -> Path:
    """This project's own documentation as a site, made in ``folder``."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, check=True, env=environment, capture_output=True)
    return folder


@contextmanager
def serving(folder: Path, host: str) -> Iterator[str]:
    """Serve the pages of a folder as a site of its own; the URL of its first page."""
    handler = functools.partial(_Quiet, directory=folder)
    port = free_block(1)
    with ThreadingHTTPServer((host, port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://{host}:{port}/"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object, **__: object) -> None:
        """Say nothing."""
