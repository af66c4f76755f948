"""Stand-ins for the processes of crawlstream: they report their health, and end on request."""

from __future__ import annotations

import textwrap
from pathlib import Path

_PROGRAM = textwrap.dedent(
    '''
    """Answers for its health until it is told to stop."""
    import asyncio
    from crawlstream.boot import health
    from crawlstream.boot.health import Health
    from crawlstream.boot.settings import load_settings
    from crawlstream.boot.signals import Stop

    async def main() -> None:
        stop = Stop()
        async with health.serve(load_settings().metrics_port, Health):
            await stop.wait()

    asyncio.run(main())
    '''
)


def stand_ins(folder: Path, **programs: str) -> Path:
    """Make the four packages that supervisord.conf runs, in a folder for PYTHONPATH.

    ``programs`` replaces the program of a package by another text.
    """
    for name in ("kafka_monitor", "redis_monitor", "rest_service", "crawling"):
        package = folder / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(programs.get(name, _PROGRAM))
    return folder
