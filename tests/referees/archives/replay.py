"""Opens pages of a WACZ file in two players of other projects, and prints what each shows.

    npm pack replaywebpage && tar xzf replaywebpage-*.tgz
    python3 -m venv pywb && pywb/bin/pip install pywb
    PYTHONPATH=tests .venv/bin/python -m referees.archives.replay site.wacz package pywb/bin URL...

``package`` is the unpacked npm package, ``pywb/bin`` the folder of pywb's programs. Exit code 0
only if both players show a text for each URL, and the same one, with the same pictures: each image
with its size, or 0 x 0 if it is missing, and the images that styles have loaded.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

from crawlstream_cli.local.ports import free_block
from support.browser import Tab, chromium

_LOOKS, _PAUSE_S = 60, 1.0
_PAGE = """<!doctype html><script src="/replay/ui.js"></script>
<replay-web-page source="/site.wacz" url="%s" embed="default" replayBase="/replay/"
 style="height: 600px"></replay-web-page>"""
_READ = """const read = (view) => {
  const seen = view.document, name = (url) => url.split("/").pop();
  const text = seen.body?.innerText ?? "";
  if (!text.trim() || [...seen.images].some((image) => !image.complete)) return "";
  const images = [...seen.images].map((image) =>
    `${name(image.currentSrc)} ${image.naturalWidth} x ${image.naturalHeight}`);
  const loaded = view.performance.getEntriesByType("resource");
  const styles = loaded.filter((one) => one.initiatorType === "css" && one.decodedBodySize > 0);
  return [text, ...images, ...styles.map((one) => `styles ${name(one.name)}`)].join("\\n");
};"""
_SHOWN = (
    f"(() => {{ {_READ}"
    """
  const shown = [];
  const walk = (root) => {
    for (const each of root.querySelectorAll("*")) {
      if (each.shadowRoot) walk(each.shadowRoot);
      if (each.tagName !== "IFRAME" || !each.contentDocument) continue;
      if (/mp_/.test(each.src)) shown.push(read(each.contentWindow));
      walk(each.contentDocument);
    }
  };
  walk(document);
  return shown.join("");
})()"""
)
_SHOWN_ALONE = f"(() => {{ {_READ} return read(window); }})()"


class _Ranges(http.server.SimpleHTTPRequestHandler):
    """Server of files by parts, as players read archives."""

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if asked is None or not path.is_file():
            super().do_GET()
            return
        content, (begin, end) = path.read_bytes(), asked.groups()
        first = int(begin) if begin else max(len(content) - int(end), 0)
        last = min(int(end), len(content) - 1) if begin and end else len(content) - 1
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        self.wfile.write(content[first : last + 1])

    def log_message(self, *_: object) -> None:
        """Be quiet."""


async def _text_in(tab: Tab, url: str, script: str) -> str:
    await tab.go(url)
    for _ in range(_LOOKS):
        if text := str(await tab.run(script)).strip():
            return text
        await asyncio.sleep(_PAUSE_S)
    return ""


async def _wait_for(port: int) -> None:
    for _ in range(_LOOKS):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(_PAUSE_S)


async def _compare(folder: Path, ports: tuple[int, int], urls: Sequence[str]) -> bool:
    first_port, second_port = ports
    await _wait_for(second_port)
    is_same = True
    with tempfile.TemporaryDirectory() as profile:
        async with chromium(Path(profile)) as browser:
            for number, url in enumerate(urls):
                (folder / f"{number}.html").write_text(_PAGE % url)
                page = f"http://127.0.0.1:{first_port}/{number}.html"
                first = await _text_in(await browser.tab(), page, _SHOWN)
                page = f"http://127.0.0.1:{second_port}/site/{quote(url, safe=':/?&=%')}"
                second = await _text_in(await browser.tab(), page, _SHOWN_ALONE)
                is_same &= bool(first) and first == second
                told = {"url": url, "replayweb": first, "pywb": second}
                sys.stdout.write(json.dumps(told) + "\n")
    return is_same


def main(wacz: str, package: str, pywb: str, *urls: str) -> int:
    """Play the pages; return the exit code."""
    programs = Path(pywb).absolute()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "replay").mkdir()
        for script in ("ui.js", "sw.js"):
            shutil.copy(Path(package) / script, folder / "replay")
        shutil.copy(wacz, folder / "site.wacz")
        (folder / "config.yaml").write_text("framed_replay: false\n")
        for words in (("init", "site"), ("add", "--unpack-wacz", "site", "site.wacz")):
            subprocess.run((str(programs / "wb-manager"), *words), cwd=folder, check=True)
        handler = partial(_Ranges, directory=name)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = free_block(1)
        play = (str(programs / "wayback"), "-b", "127.0.0.1", "-p", str(port))
        with (folder / "log").open("wb") as log:
            player = subprocess.Popen(play, cwd=folder, stderr=log)
        try:
            return 0 if asyncio.run(_compare(folder, (server.server_port, port), urls)) else 1
        finally:
            player.kill()
            player.wait()
            server.shutdown()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
