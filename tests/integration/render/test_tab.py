"""A browser's rendering of a page, and the limits of a page in it: by the site's log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from crawling.render import document
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream_chaos.scripted_site import HTML, Answer, serving
from support.crawler.rendering import RenderBench, rendering
from support.crawler.spa import JSON, html, linking, made_by, script
from support.crawler.tls import TlsSite, make_certificate

pytestmark = pytest.mark.asyncio(loop_scope="module")

READY_S = 4.0
"""A page that is never ready is taken after so long."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[RenderBench]:
    """A browser for all pages here: none may spoil it for the next."""
    async with rendering(render_timeout=READY_S) as made:
        yield made


@pytest.fixture(autouse=True)
def _usual(bench: RenderBench) -> None:
    bench.rule()
    bench.forbidden.clear()
    bench.ahead_s += 3600  # No site rests any more.


def fetching(*urls: str) -> str:
    """A script that requests URLs, one after the other, and notes the answers."""
    each = "".join(
        f"try {{ await fetch('{url}', {{mode: 'no-cors'}}); }} catch (e) {{}}" for url in urls
    )
    return f"(async () => {{ {each} document.title = 'over'; }})();"


async def test_what_a_script_writes_is_the_page(bench: RenderBench) -> None:
    """The body is the DOM in UTF-8, whatever the charset of the page; head and status its own."""
    text = "<!DOCTYPE html><p id=a></p><script>a.textContent = 'é' + 6 * 7</script>"
    answer = Answer(
        text.encode("latin-1"), 404, {"Content-Type": "text/html; charset=latin-1", "X-A": "b"}
    )
    with serving({"/": answer}) as site:
        came = await bench.render(site.url("/"))
    assert came.status == 404
    assert came.headers[b"X-A"] == b"b"
    assert "é42" in came.text
    assert came.body.decode().startswith("<!DOCTYPE html><html>")
    assert bench.told["complete"]
    assert site.paths() == ["/"]


async def test_cookies_that_a_page_sets_are_told(bench: RenderBench) -> None:
    """Each Set-Cookie as the site wrote it, rendered or not, and none that a script made up."""
    lines = ("a=1; Path=/x; HttpOnly; Max-Age=60", "b=2")
    page = "<script>document.cookie = 'c=3'</script>"
    answers: dict[str, Answer] = {}
    for path, status in (("/", 200), ("/missing", 404), ("/moved", 301), ("/none", 204)):
        moved = {"Location": "/"} if status == 301 else {}
        answers[path] = Answer(
            b"" if status == 204 else page.encode(),
            status,
            {**HTML, **moved, "Set-Cookie": "\r\nSet-Cookie: ".join(lines)},
        )
    with serving(answers) as site:
        for path in answers:
            came = await bench.render(site.url(path))
            assert [line.decode() for line in came.headers.getlist("Set-Cookie")] == [*lines], path


async def test_other_documents_are_taken_as_they_are(bench: RenderBench) -> None:
    """Text, files to save, refusals and errors come as they were sent; nothing is rendered."""
    packed = {**HTML, "Content-Disposition": "attachment; filename=a.html"}
    page = b"<script>document.write(1)</script>"
    answers = {
        "/text": Answer(b"plain \xff", headers={"Content-Type": "text/plain"}),
        "/json": Answer(b"[1]", headers=JSON),
        "/file": Answer(page, headers=packed),
        "/later": Answer(page, 503),
        "/none": Answer(b"", 204, {}),
        "/large": Answer(b"x" * 3_000_000, headers={"Content-Type": "application/pdf"}),
    }
    with serving(answers) as site:
        for path, answer in answers.items():
            came = await bench.render(site.url(path))
            assert (came.status, came.body) == (answer.status, answer.body), path
            assert bench.told is None, path


async def test_a_redirect_ends_where_it_is_answered(bench: RenderBench) -> None:
    """The browser follows neither a 3xx nor a script; both come back as what they lead to."""
    answers = {
        "/moved": Answer(b"", 302, {"Location": "/target", "Set-Cookie": "a=1"}),
        "/script": made_by("location.href = '/target'"),
        "/form": made_by("document.forms[0].submit()", "<form method=post action=/target></form>"),
        "/target": html("<p>never"),
    }
    with serving(answers) as site:
        moved = await bench.render(site.url("/moved"))
        assert (moved.status, moved.headers[b"Location"]) == (302, b"/target")
        assert moved.headers[b"Set-Cookie"] == b"a=1"
        led = await bench.render(site.url("/script"))
        assert (led.status, led.headers[b"Location"]) == (303, site.url("/target").encode())
        stays = await bench.render(site.url("/form"))
        assert stays.status == 200
    assert site.paths() == ["/moved", "/script", "/form"]


async def test_a_page_that_leads_elsewhere_when_it_is_ready_is_there(bench: RenderBench) -> None:
    """Whichever comes first, it is a redirect or a page, and no failure."""
    code = (
        "document.body.innerHTML = '<b id=there>';"
        "setTimeout(() => { location = '/target' }, location.search.slice(1));"
    )
    answers = {f"/?{delay}": made_by(code) for delay in range(0, 32, 2)}
    with serving(answers) as site:
        for path in answers:
            came = await bench.render(site.url(path), render={"wait_for": "#there"})
            assert came.status in {200, 303}
            assert (b"there" in came.body) == (came.status == 200)
    assert site.paths() == [*answers]


async def test_a_page_that_loads_itself_anew_is_no_loop(bench: RenderBench) -> None:
    """A reload by script is stopped, and the page is the result."""
    with serving({"/": made_by("location.reload()", "<p>here")}) as site:
        came = await bench.render(site.url("/"))
    assert b"here" in came.body
    assert site.paths() == ["/"]


async def test_the_rule_bounds_what_a_page_asks_of_its_site(bench: RenderBench) -> None:
    """With `render: 3` three further requests leave, with 0 none; the page is delivered."""
    page = made_by(fetching(*(f"/{n}" for n in range(6))))
    for most in (3, 0):
        bench.rule(render=most)
        with serving({"/": page}) as site:
            await bench.render(site.url("/"))
        assert len(site.paths()) == 1 + most
        assert (bench.told["requests"], bench.told["blocked"]) == (most, 6 - most)


async def test_redirects_of_further_requests_count(bench: RenderBench) -> None:
    """A thousand of them end at the bound, like any other request."""
    bench.rule(render=5)
    answers = {f"/{n}": Answer(b"", 302, {"Location": f"/{n + 1}"}) for n in range(1000)}
    with serving({**answers, "/": made_by(fetching("/0"))}) as site:
        await bench.render(site.url("/"))
    assert site.paths() == ["/", *(f"/{n}" for n in range(5))]


async def test_preflights_count(bench: RenderBench) -> None:
    """A browser's preflight requests to another origin are within the bound as well."""
    code = (
        "for (let n = 0; n < 9; n++) fetch('http://127.0.0.2:PORT/' + n, {headers: {'X-A': 'b'}})"
    )
    allowed = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"}
    bench.blacklist.table = ThrottleTable(default=ThrottleRule(hits=9, window_s=1))
    with serving({f"/{n}": Answer(b"", headers=allowed) for n in range(9)}) as site:
        site.pages["/"] = made_by(code.replace("PORT", str(site.port)))
        bench.settings = bench.settings.model_copy(update={"render_requests": 8})
        bench.client._settings = bench.settings
        await bench.render(site.url("/"))
    asked = [visit for visit in site.visits if visit.host == "127.0.0.2"]
    assert 0 < len(asked) <= 8


async def test_what_nobody_needs_is_not_loaded(bench: RenderBench) -> None:
    """Images, media, fonts, icons, beacons, sockets, events and prefetches never leave."""
    body = (
        "<link rel=icon href=/icon><link rel=prefetch href=/prefetch><link rel=preload as=font"
        " crossorigin href=/font><img src=/image><video src=/video></video>"
        "<a ping=/ping href=#>a</a>"
        "<link rel=manifest href=/manifest><object data=/object></object>"
        '<script type=speculationrules>{"prefetch": [{"source": "list", "urls": ["/s"]}]}</script>'
    )
    code = (
        "navigator.sendBeacon('/beacon', 'x'); document.links[0].click(); window.open('/popup');"
        "try { new EventSource('/events') } catch (e) {}"
        "try { new WebSocket('ws://' + location.host + '/socket') } catch (e) {}"
        "new Worker('/worker.js'); fetch('/fetch');"
        "navigator.serviceWorker?.register('/service.js')"
    )
    answers = {
        "/": made_by(code, body),
        "/worker.js": script("fetch('/in-worker'); importScripts('/imported.js')"),
        "/service.js": script(""),
        "/object": html("<p>an object"),
    }
    with serving(answers) as site:
        await bench.render(site.url("/"))
    asked = site.paths()
    # Chromium prefetches by speculation rules without a word; that can only take another's place.
    assert set(asked) <= {"/", "/fetch", "/worker.js", "/object", "/s"}
    assert len(asked) <= 1 + bench.told["requests"] == 3


async def test_robots_rests_and_blocks_hold_for_further_requests(bench: RenderBench) -> None:
    """Neither disallowed URLs nor a blocked site get requests; a site that refuses rests."""
    with serving({"/no": Answer(b""), "/later": Answer(b"", 429)}) as site:
        other = site.url("/x", host="127.0.0.7")
        site.pages["/"] = made_by(fetching("/no", other, "/later", "/after"))
        bench.forbidden.add(site.url("/no"))
        bench.blacklist.table = ThrottleTable(
            default=ThrottleRule(hits=9, window_s=1), blacklist=frozenset({"127.0.0.7"})
        )
        await bench.render(site.url("/"))
    assert site.paths() == ["/", "/later"]
    assert bench.told["blocked"] == 3
    assert bench.latest is not None
    assert bench.latest.refused is not None


async def test_no_address_is_reached_that_the_guard_refuses(bench: RenderBench) -> None:
    """Scripts, frames, fetches and workers come to nothing at addresses that are not allowed."""
    places = ("http://169.254.169.254/", "http://[::ffff:10.0.0.1]/", "http://10.0.0.1:22/")
    frames = "".join(
        f"<iframe src={place}></iframe><script src={place}></script>" for place in places
    )
    with serving({"/": made_by(fetching(*places, "file:///etc/passwd"), frames)}) as site:
        came = await bench.render(site.url("/"))
    assert b"root:" not in came.body
    assert await bench.reason("http://169.254.169.254/latest/") == "address_refused"


@pytest.mark.parametrize(
    "code",
    [
        "while (true) {}",
        "setInterval(() => alert(1), 0); while (true) alert(2)",
        "(function f() { Promise.resolve().then(f) })()",
        "setInterval(() => fetch('/' + Math.random()), 50)",
    ],
    ids=["loop", "alerts", "microtasks", "polls"],
)
async def test_a_page_without_an_end_is_taken_as_it_is(
    bench: RenderBench, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is delivered as incomplete after its time, or fails with a reason; the next is well."""
    monkeypatch.setattr(document, "_DOM_S", 1.5)
    with serving({"/": made_by(code, "<p>text</p>"), "/next": html("<p>next")}) as site:
        outcome = await bench.reason(site.url("/"))
        assert outcome in {"status 200", "render_failed"}
        if outcome == "status 200" and "fetch" not in code:
            assert not bench.told["complete"]
        assert b"next" in (await bench.render(site.url("/next"))).body
    assert len(site.paths()) <= 2 + 30


@pytest.mark.parametrize(
    "code",
    [
        "const a = []; while (true) a.push(new Array(1e6).fill(Math.random()))",
        "for (let n = 0; n < 2e6; n++) document.body.append(document.createElement('p'))",
        "document.body.textContent = 'x'.repeat(40e6)",
    ],
    ids=["heap", "nodes", "text"],
)
async def test_a_bomb_hurts_nobody_else(
    bench: RenderBench, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails with a reason; the next page is well."""
    monkeypatch.setattr(document, "_DOM_S", 1.5)
    with serving({"/": made_by(code), "/next": html("<p>next")}) as site:
        assert await bench.reason(site.url("/")) in {"render_failed", "too_large"}
        assert b"next" in (await bench.render(site.url("/next"))).body


async def test_nothing_of_a_page_is_there_for_the_next(bench: RenderBench) -> None:
    """Cookies and storage end with the page; those of the crawl are there for its own site only."""
    page = made_by(
        "document.title = document.cookie + '|' + localStorage.getItem('a');"
        "document.cookie = 'left=1'; localStorage.setItem('a', 'left');"
    )
    frame = made_by("", "<iframe src=http://127.0.0.2:PORT/frame></iframe>")
    with serving({"/": page, "/frame": html("<p>f")}) as site:
        site.pages["/framed"] = html(frame.body.decode().replace("PORT", str(site.port)))
        own: dict[str, object] = {
            "cookies": {"k": "v"},
            "headers": {"X-Key": "s"},
            "site": "127.0.0.1",
        }
        first = await bench.render(site.url("/"), **own)
        second = await bench.render(site.url("/"))
        await bench.render(site.url("/framed"), **own)
    assert b"<title>k=v|null</title>" in first.body
    assert b"<title>|null</title>" in second.body
    told = {visit.path: visit.headers for visit in site.visits}
    assert told["/framed"]["cookie"] == "k=v"
    assert told["/framed"]["x-key"] == "s"
    assert "cookie" not in told["/frame"]
    assert "x-key" not in told["/frame"]


async def test_a_page_says_when_it_is_ready(bench: RenderBench) -> None:
    """It waits for an element and some time, not for requests in flight; never without end."""
    late = "setTimeout(() => document.body.innerHTML = '<b id=there>', 300); fetch('/slow')"
    with serving({"/": made_by(late), "/slow": Answer(b"", after_s=3)}) as site:
        came = await bench.render(site.url("/"), render={"wait_for": "#there"})
        assert b"there" in came.body
        assert bench.told["complete"]
        assert bench.told["ms"] < 2500
        await bench.render(site.url("/"), render={"wait_for": "#nowhere"})
        assert not bench.told["complete"]
        await bench.render(site.url("/"), render={"wait_for": "]["})
        assert not bench.told["complete"]


async def test_a_wish_only_narrows(bench: RenderBench) -> None:
    """A crawl may leave types out, and gets none that the operator has not."""
    page = html("<script src=/a.js></script><img src=/a.png>")
    with serving({"/": page, "/a.js": script("")}) as site:
        await bench.render(site.url("/"), render={"types": ["image"]})
        await bench.render(site.url("/"), render={"types": ["script"]})
    assert site.paths() == ["/", "/", "/a.js"]


async def test_failures_have_the_names_that_they_have_without_a_browser(bench: RenderBench) -> None:
    """Refused, silent and broken sites have different reasons."""
    answers = {"/reset": Answer(is_reset=True), "/mute": Answer(after_s=30), "/": html("<p>a")}
    with serving(answers) as site:
        assert await bench.reason(site.url("/reset")) == "connection_lost"
        bench.client._settings = bench.settings.model_copy(update={"download_timeout": 1.0})
        assert await bench.reason(site.url("/mute")) == "timeout"
        bench.client._settings = bench.settings
        url = site.url("/")
    assert await bench.reason(url) == "refused"


async def test_sites_behind_tls_are_rendered_within_the_same_bound(
    bench: RenderBench, tmp_path: Path
) -> None:
    """Document and further requests share connections; a certificate counts where one must hold."""
    page = made_by(fetching(*(f"/{n}" for n in range(5))))
    bench.rule(render=3)
    with serving({"/": page}, kind=TlsSite) as site:
        assert isinstance(site, TlsSite)
        site.certify(make_certificate(tmp_path))
        came = await bench.render(site.url("/"))
        assert b"<title>over</title>" in came.body
        assert site.paths() == ["/", "/0", "/1", "/2"]
        assert bench.told["requests"] == 3
        assert site.handshakes < len(site.visits)
        strict = {"download_verify_certificates": True}
        bench.client._settings = bench.settings.model_copy(update=strict)
        assert await bench.reason(site.url("/")) == "certificate"
        bench.client._settings = bench.settings
    assert len(site.paths()) == 4


async def test_a_browser_that_dies_is_replaced(bench: RenderBench) -> None:
    """Killed and frozen ones fail their pages with a reason; the next page has another."""
    with serving({"/": made_by(linking("/a"))}) as site:
        for kill in (psutil.Process.kill, psutil.Process.suspend):
            await bench.render(site.url("/"))
            current = bench.browsers._current
            assert current is not None
            kill(psutil.Process(current.running.pid))
            if kill is psutil.Process.suspend:
                current.pipe.end()
            else:
                assert await bench.reason(site.url("/")) in {"render_failed", "status 200"}
            async with bench.browsers.one() as other:
                assert other is not current
            assert b"/a" in (await bench.render(site.url("/"))).body
