"""An archive of the classes that Kafka loads, in the folder of the jars: it halves a start's CPU.

Java checks it against its own version and the jars, and starts without one that does not fit.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from crawlstream.errors import SetupError
from crawlstream_cli.local import servers
from crawlstream_cli.local.ports import free_block
from crawlstream_cli.local.probes import kafka_answers

_TIMEOUT_S = 120


def archive_classes(jars: Path) -> None:
    """Write the archive, unless it is there, from a Kafka that starts and ends; SetupError."""
    archive = servers.class_archive(jars)
    if archive.exists():
        return
    with tempfile.TemporaryDirectory(dir=jars, prefix="archive-") as folder:
        new, place = Path(folder) / archive.name, Path(folder)
        server = servers.kafka(place, port=free_block(2), jars=jars)
        servers.format_kafka(server)
        java, options, *main = server.argv
        argv = (java, options, f"-XX:ArchiveClassesAtExit={new.name}", *servers.QUIET, *main)
        process = subprocess.Popen(
            argv, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait_for(server.port, process)
            process.terminate()
            process.wait(_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
        new.rename(archive)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not kafka_answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SetupError("Kafka does not start: there is no archive of its classes")
        time.sleep(0.1)


if __name__ == "__main__":
    archive_classes(Path(sys.argv[1]))
