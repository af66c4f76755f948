"""Sites whose pages only a browser sees as they are: links, text and all else made by scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, Page

SCRIPT = {"Content-Type": "text/javascript; charset=utf-8"}
JSON = {"Content-Type": "application/json"}
DOCUMENT = "document"


def html(text: str, **headers: str) -> Answer:
    """A page as it is written."""
    return Answer(text.encode(), headers={**HTML, **headers})


def script(text: str) -> Answer:
    """A script that a page loads with ``<script src>``."""
    return Answer(text.encode(), headers=SCRIPT)


def made_by(code: str, body: str = "") -> Answer:
    """A page that has nothing but a script."""
    return html(f"<!DOCTYPE html><html><body>{body}<script>{code}</script></body></html>")


def linking(*links: str) -> str:
    """A script that makes links."""
    return "".join(
        f"var a = document.createElement('a'); a.href = '{link}'; a.textContent = '{link}';"
        "document.body.append(a);"
        for link in links
    )


def tree(pages: int) -> Mapping[str, Page]:
    """Pages that are linked by a script alone, which requests the links from an API."""
    shown = html(
        "<!DOCTYPE html><html><head><script src='/app.js'></script></head><body></body></html>"
    )
    app = script(
        "addEventListener('load', async () => {"
        "  const answer = await fetch('/api' + location.pathname);"
        "  for (const each of await answer.json()) {"
        "    const a = document.createElement('a');"
        "    a.href = each; a.textContent = 'page ' + each; document.body.append(a);"
        "  }"
        "});"
    )
    made: dict[str, Page] = {"/app.js": app}
    for number in range(1, pages + 1):
        below = [f'"/{n}"' for n in (2 * number, 2 * number + 1) if n <= pages]
        made[f"/{number}"] = shown
        made[f"/api/{number}"] = Answer(f"[{','.join(below)}]".encode(), headers=JSON)
    return made


def hosts_asked(site: CrawlerSite) -> Counter[str]:
    """Requests by host, robots.txt included."""
    return Counter(visit.host for visit in site.visits)
