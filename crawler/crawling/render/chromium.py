"""The browser program: its path, its flags, and the end of all its processes.

The flags keep pages behind the gateway: they switch off every way around it, and no setting adds a
flag that would switch one on again.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import psutil

from crawling.render import launch, tree
from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError

_NAMES = (
    *("/usr/lib/chromium/chromium-headless-shell", "chromium-headless-shell"),
    *("chrome-headless-shell", "chromium", "chromium-browser", "google-chrome"),
)
_SHELLS = ("chromium-headless-shell", "chrome-headless-shell")
"""Programs without a window, which need no ``--headless``."""
_LONGEST = 96 * 1024 * 1024
"""Bytes of the largest message: a DOM in JSON."""
_NOWHERE = "http://127.0.0.1:9"
"""Proxy of all requests outside a page's context: no server listens there."""
_WITHOUT = (
    *("AsyncDns", "AutofillServerCommunication", "CertificateTransparencyComponentUpdater"),
    *("DialMediaRouteProvider", "DnsOverHttps", "InterestFeedContentSuggestions", "MediaRouter"),
    *("NetworkErrorLogging", "NetworkTimeServiceQuerying", "OptimizationHints"),
    *("PreloadMediaEngagementData", "Prerender2", "Reporting", "SpeculationRulesPrefetchFuture"),
    *("Translate", "WebTransport"),
)
"""Features of the browser that send requests by themselves, or past its proxy."""
_FLAGS = (
    *("--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check"),
    *("--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio"),
    # Requests leave only through the proxy of a page.
    f"--proxy-server={_NOWHERE}",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-prefetch-disable",
    "--no-pings",
    "--block-new-web-contents",
    # Features for people, and activity of the browser by itself.
    *("--disable-background-networking", "--disable-extensions", "--disable-sync"),
    *("--disable-component-update", "--disable-default-apps", "--disable-domain-reliability"),
    *("--disable-breakpad", "--disable-client-side-phishing-detection", "--metrics-recording-only"),
    *("--disable-notifications", "--deny-permission-prompts", "--disable-speech-api"),
    f"--disable-features={','.join(_WITHOUT)}",
    # HTTP/1.1 as in the rest of the crawler: a connection carries one request at a time,
    # and a host gets six connections.
    "--disable-http2",
    "--js-flags=--max-old-space-size=256",
    *("--disable-hang-monitor", "--disable-prompt-on-repost", "--disable-popup-blocking"),
    *("--disable-background-timer-throttling", "--disable-renderer-backgrounding"),
    "--disable-backgrounding-occluded-windows",
    *("--password-store=basic", "--use-mock-keychain", "--disable-shared-workers"),
)


def find_browser(named: str = "") -> str:
    """Return the path of the program; ConfigError says what to do where there is none."""
    if named:
        if not shutil.which(named):
            raise ConfigError(f"CRAWLSTREAM_RENDER_BROWSER: {named} is not a program")
        return str(Path(shutil.which(named) or named).absolute())
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise ConfigError(
            "no browser is installed, which CRAWLSTREAM_RENDER needs: apt-get install"
            " chromium-headless-shell, or set CRAWLSTREAM_RENDER_BROWSER"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserProgram:
    """The command to run, and the user that runs it."""

    path: str
    user_agent: str
    has_sandbox: bool = True
    user: str = ""
    """User whose rights it has; "": the rights of this process."""
    more: tuple[str, ...] = field(default=())
    """Further flags, for tests."""

    def argv(self, folder: Path) -> list[str]:
        """Return the command."""
        argv = [self.path, *_FLAGS, f"--user-data-dir={folder}"]
        if self.user_agent:
            argv.append(f"--user-agent={self.user_agent}")
        if Path(self.path).name not in _SHELLS:
            argv.append("--headless")
        if not self.has_sandbox:
            argv.append("--no-sandbox")
        return [*argv, *self.more, "about:blank"]


def program_of(settings: Settings) -> BrowserProgram:
    """Return the program by a crawler's settings; ConfigError says what to do if it cannot run."""
    if settings.render_user and os.geteuid() != 0:
        raise ConfigError("CRAWLSTREAM_RENDER_USER needs a crawler that runs as root")
    if settings.render_user:
        try:
            pwd.getpwnam(settings.render_user)
        except KeyError:
            raise ConfigError(
                f"CRAWLSTREAM_RENDER_USER: there is no user {settings.render_user}"
            ) from None
    return BrowserProgram(
        path=find_browser(settings.render_browser),
        user_agent=settings.user_agent,
        has_sandbox=settings.render_sandbox,
        user=settings.render_user or ("nobody" if os.geteuid() == 0 else ""),
    )


class RunningBrowser:
    """The browser process and all its children, in a folder of its own."""

    def __init__(self, program: BrowserProgram) -> None:
        """Start the browser; it ends with the calling thread."""
        self._folder = tempfile.TemporaryDirectory(
            prefix="crawlstream-browser-", ignore_cleanup_errors=True
        )
        folder = Path(self._folder.name)
        if program.user:
            shutil.chown(folder, program.user)
        commands, self.writes = os.pipe()
        self.reads, answers = os.pipe()
        try:
            with (folder / "browser.log").open("wb") as log:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, launch.__file__, str(os.getpid()), program.user),
                        *(str(commands), str(answers), *program.argv(folder)),
                    ],
                    env={"HOME": str(folder), "PATH": os.defpath},
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(commands, answers),
                    process_group=0,
                )
        finally:
            os.close(commands)
            os.close(answers)

    @property
    def pid(self) -> int:
        """Return the process id of the browser itself."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def last_words(self) -> str:
        """Return the end of its output, at most 600 bytes, in one line."""
        with suppress(OSError):
            text = (Path(self._folder.name) / "browser.log").read_bytes()[-600:]
            return " ".join(text.decode("utf-8", "replace").split())
        return ""

    def memory_bytes(self) -> int:
        """Return the memory of all its processes."""
        return tree.memory_bytes(self.pid)

    def cpu_s(self) -> float:
        """Return the CPU time of its running and ended processes."""
        return tree.cpu_s(self.pid)

    def end(self) -> None:
        """Kill the process and all its children; return when it has ended."""
        processes = tree.tree_of(self.pid)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        self._process.wait()
        self._folder.cleanup()


class Ends(NamedTuple):
    """The crawler's ends of the pipes; writing never blocks, even if the browser does not read."""

    reader: asyncio.StreamReader
    reading: asyncio.ReadTransport
    writing: asyncio.WriteTransport

    @classmethod
    async def of(cls, running: RunningBrowser) -> Self:
        """Return the ends for a browser, in the running event loop."""
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(_LONGEST)
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(running.reads, "rb", 0)
        )
        writing, _ = await loop.connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(running.writes, "wb", 0)
        )
        return cls(reader, reading, writing)

    def close(self) -> None:
        """Close both pipes."""
        if not self.reading.is_closing():
            self.reading.close()
        if not self.writing.is_closing():
            self.writing.abort()
