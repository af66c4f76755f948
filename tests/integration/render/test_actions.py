"""Actions in pages: scrolls, clicks and fields, and pages that make them endless or impossible."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import orjson
import pytest
import pytest_asyncio
from scrapy.http import Response

from crawling.render import actions
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, SeenRequest, serving
from support.crawler.rendering import RenderBench, rendering
from support.crawler.spa import JSON, html, made_by

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[RenderBench]:
    """A browser for all pages here: none may spoil it for the next."""
    async with rendering(render_timeout=3.0) as made:
        yield made


@pytest.fixture(autouse=True)
def _usual(bench: RenderBench) -> None:
    bench.rule()


async def acted(bench: RenderBench, page: Answer | CrawlerSite, *wished: Mapping[str, Any]) -> str:
    """The document of a page after some actions."""
    if isinstance(page, CrawlerSite):
        came = await bench.render(page.url("/"), render={"actions": [*wished]})
    else:
        with serving({"/": page}) as site:
            came = await bench.render(site.url("/"), render={"actions": [*wished]})
    assert came.status == 200
    return came.text


async def acted_at_once(
    bench: RenderBench,
    pages: Sequence[Answer],
    wished: Sequence[Sequence[Mapping[str, Any]]],
    site: CrawlerSite | None = None,
    **profile: Any,
) -> Sequence[tuple[Response, Mapping[str, Any]]]:
    """Responses of pages, each with its actions, and the field `render` of their results."""

    async def one(url: str, act: Sequence[Mapping[str, Any]]) -> tuple[Response, Mapping[str, Any]]:
        wish = {"wait_for": "body", "actions": [*act]}
        page = bench.page(url, render=wish, **profile)
        came: Response = await bench.client.fetch(bench.request(page), page)
        return came, page.render or {}

    with ExitStack() as stack:
        site = site or stack.enter_context(serving({}))
        site.pages |= {f"/{n}": page for n, page in enumerate(pages)}
        urls = (site.url(f"/{n}") for n in range(len(pages)))
        made = await asyncio.gather(*map(one, urls, wished))
        assert {f"/{n}" for n in range(len(pages))} <= set(site.paths())
        assert not [path for path in site.paths() if path.startswith("/target")]
    return made


ITEMS = 500
LIST = """
<style>p {{ height: 90px }} {style}</style><div id=list></div><div id=end></div>
<script>
let next = {first}, busy = false;
async function more() {{
  if (busy || next === null) return;
  busy = true;
  const told = await (await fetch("/items?from=" + next)).json();
  for (const each of told.items) {{
    const p = document.createElement("p"); p.textContent = "item " + each; list.append(p);
  }}
  next = told.next; busy = false;
  {after}
}}
{start}
</script>"""
BY_SCROLL = LIST.format(
    first=0,
    style="",
    after="observer.unobserve(end); observer.observe(end);",
    start="const observer = new IntersectionObserver(all => all[0].isIntersecting && more());"
    "observer.observe(end)",
)
IN_A_BOX = LIST.format(
    first=400,
    style="body { margin: 0; overflow: hidden } #list { height: 100vh; overflow-y: auto }",
    after="",
    start="more(); list.onscroll = () =>"
    " list.scrollTop + list.clientHeight > list.scrollHeight - 50 && more()",
)
BY_BUTTON = LIST.format(
    first=400,
    style="",
    after="if (next === null) button.remove();",
    start="const button = document.createElement('button'); button.className = 'more';"
    "button.onclick = more; document.body.append(button); more()",
)


def items(visit: SeenRequest) -> Answer:
    """Twenty-five items a request."""
    first = int(visit.path.partition("=")[2])
    told = {
        "items": [*range(first, first + 25)],
        "next": first + 25 if first + 25 < ITEMS else None,
    }
    return Answer(orjson.dumps(told), headers=JSON, after_s=0.02)


def listing(page: str) -> Mapping[str, Any]:
    """A site with a list that grows."""
    return {"/": html(page), **{f"/items?from={n}": items for n in range(0, ITEMS, 25)}}


@pytest.mark.parametrize(("page", "first"), [(BY_SCROLL, 0), (IN_A_BOX, 400)], ids=["page", "box"])
async def test_an_endless_list_is_scrolled_to_its_end(
    bench: RenderBench, page: str, first: int
) -> None:
    """Scrolls until nothing new comes: all 500 items are there, each requested once."""
    with serving(listing(page)) as site:
        text = await acted(bench, site, {"scroll": 30})
    assert [f"item {n}<" in text for n in range(first, ITEMS)] == [True] * (ITEMS - first)
    assert site.paths() == ["/", *(f"/items?from={n}" for n in range(first, ITEMS, 25))]
    (effect,) = bench.told["actions"]
    assert effect["scroll"] == 30
    assert 2 < effect["times"] < 30
    assert bench.told["complete"]


@pytest.mark.parametrize(("times", "done"), [(9, 3), (2, 2)])
async def test_a_button_is_clicked_while_it_is_there(
    bench: RenderBench, times: int, done: int
) -> None:
    """Clicks "load more" until it has gone, or as often as the crawl says."""
    with serving(listing(BY_BUTTON)) as site:
        text = await acted(bench, site, {"click": "button.more", "times": times})
    assert bench.told["actions"] == [{"click": "button.more", "times": done}]
    assert bench.told["complete"]
    assert text.count("<p>") == 25 * (done + 1)


async def test_requests_of_actions_are_within_the_rule(bench: RenderBench) -> None:
    """However often it scrolls, a site sees `render` further requests of the page; robots hold."""
    bench.rule(render=4)
    with serving(listing(BY_SCROLL)) as site:
        await acted(bench, site, {"scroll": 100})
        assert len(site.paths()) == 1 + 4
        assert (bench.told["requests"], bench.told["blocked"]) == (4, 1)
        bench.rule()
        del site.visits[:]
        bench.forbidden.add(site.url("/items?from=50"))
        await acted(bench, site, {"scroll": 100})
        assert site.paths() == ["/", "/items?from=0", "/items?from=25"]


TABS = """
<nav><b id=one>One</b> <b id=two style="visibility: hidden">Two</b> <b id=three>Three</b></nav>
<div id=panel>first</div>
<script>
for (const [tab, text] of [[one, "first"], [three, "third"]])
  tab.onpointerdown = event => { if (event.isTrusted) panel.textContent = text };
three.onmouseenter = () => { two.style.visibility = "visible" };
two.onclick = async () => { panel.innerHTML = await (await fetch("/second")).text() };
</script>"""


async def test_tabs_are_opened(bench: RenderBench) -> None:
    """Clicks are those of a mouse, and the next action waits for what they load."""
    answers = {"/": html(TABS), "/second": Answer(b"<p id=second>second", after_s=0.8)}
    with serving(answers) as site:
        wished = ({"click": "b#three"}, {"click": "nav b:nth-child(2)"}, {"hover": "#second"})
        text = await acted(bench, site, *wished)
    assert bench.told["actions"] == [{**each, "times": 1} for each in wished]
    assert 'id="panel"><p id="second">second</p></div>' in text


FORM = """
<form id=form onsubmit="told.textContent = [...new FormData(form).values()]; return false">
<input name=text><textarea name=long>old</textarea><input type=date name=day>
<select name=size><option value=s>Small<option value=l>Large</select>
<div id=free contenteditable><b>old</b></div></form>
<p id=told></p><p id=typed></p>
<script>form.oninput = event => { typed.textContent += event.target.name + ";" };
free.onkeydown = event => { typed.textContent += event.key + ";" };</script>"""


async def test_a_form_is_filled(bench: RenderBench) -> None:
    """Enters texts, selects an option by its value or label, and presses keys, as scripts see."""
    text = await acted(
        bench,
        html(FORM),
        {"fill": "#free", "text": "free"},
        {"press": "!"},
        {"fill": "[name=long]", "text": "several\nlines"},
        {"fill": "[name=day]", "text": "2026-11-30"},
        {"select": "select", "value": "Large"},
        {"fill": "[name=text]", "text": "a \"word\" of 'é'"},
        {"press": "Enter"},
        {"wait": "#told:not(:empty)"},
        {"wait": 10},
    )
    assert bench.told["complete"], bench.told
    assert "text" not in bench.told["actions"][0]
    assert '<p id="told">a "word" of \'é\',several\nlines,2026-11-30,l</p>' in text
    assert '<div id="free" contenteditable=""><b>free!</b></div>' in text
    assert "!;" in text
    assert text.count("size;") == 1


IMPOSSIBLE: Sequence[tuple[Mapping[str, Any], str]] = (
    ({"click": "[["}, "bad_selector"),
    ({"wait": "[["}, "bad_selector"),
    ({"wait": "#none"}, "timeout"),
    ({"hover": "#none"}, "no_element"),
    ({"hover": "#hidden"}, "no_element"),
    ({"fill": "#none", "text": ""}, "no_element"),
    ({"fill": "p", "text": "a"}, "wrong_element"),
    ({"fill": "[type=file]", "text": "/etc/passwd"}, "wrong_element"),
    ({"fill": "[type=number]", "text": "many"}, "bad_value"),
    ({"select": "p", "value": "a"}, "wrong_element"),
    ({"select": "select", "value": "none"}, "bad_value"),
    ({"click": "#below"}, "covered"),
)


async def test_an_action_that_cannot_be_done_ends_the_list(
    bench: RenderBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Says why, leaves the actions after it out, and delivers the page as it is."""
    monkeypatch.setattr(actions, "_APPEARS_S", 0.5)
    page = html(
        "<p>here</p><p id=hidden style='display: none'>a</p><input type=file><input type=number>"
        "<select><option>a</select><button id=below onclick='remove()'>Below</button>"
        "<button id=accept style='position: fixed; inset: 0' onclick='remove()'>Accept all</button>"
    )
    wished = [({"wait": 1}, action, {"click": "#below"}) for action, _ in IMPOSSIBLE]
    made = await acted_at_once(bench, [page] * len(wished), wished)
    for (action, error), (came, told) in zip(IMPOSSIBLE, made, strict=True):
        verb = next(iter(action))
        effect = {verb: action[verb], "times": 0, "error": error}
        assert told["actions"] == [{"wait": 1, "times": 1}, effect]
        assert not told["complete"]
        assert "Below" in came.text
        assert "Accept all" in came.text


async def test_an_element_that_is_not_there_is_not_clicked(bench: RenderBench) -> None:
    """Goes on with the next action: buttons are missing on some pages of a crawl."""
    page = html("<button id=a disabled>A</button><button id=b style='display: none'>B</button>")
    wished = ({"click": "#a", "times": 9}, {"click": "#b"}, {"click": "#none"}, {"scroll": 1})
    await acted(bench, page, *wished)
    assert [each["times"] for each in bench.told["actions"]] == [0, 0, 0, 0]
    assert bench.told["complete"]


LEADING = {
    "link": "<a id=a href=/target>a</a>",
    "window": "<a id=a href=/target target=_blank>a</a>",
    "open": "<b id=a onclick=\"for (const way of ['', 'noopener'])"
    " window.open('/target', '_blank', way)\">a</b>",
    "script": "<b id=a onclick=\"setTimeout(() => { location = '/target' }, 200)\">a</b>",
    "form": "<form action=/target><input name=q><button id=a>a</button></form>",
    "post": "<form action=/target method=post><button id=a>a</button></form>",
    "asks": "<a id=a href=/target>a</a><script>onbeforeunload = event => 'stay?'</script>",
    "elsewhere": "<a id=a href=//127.0.0.2/target>a</a>",
    "itself": "<a id=a href=>a</a>",
}


async def test_where_an_action_leads_the_browser_does_not_go(bench: RenderBench) -> None:
    """A page that leads on is a redirect, if the crawl may go there; no window opens."""
    pages = [html(page + "<p>here") for page in LEADING.values()]
    wished = [({"click": "#a"}, {"wait": 300})] * len(pages)
    made = await acted_at_once(bench, pages, wished, allowed_domains=("127.0.0.1",))
    led = {kind: came for kind, (came, told) in zip(LEADING, made, strict=True) if not told}
    assert {kind: came.status for kind, came in led.items()} == dict.fromkeys(MOVED, 303)
    assert {
        kind: str(came.headers[b"Location"]).partition("/target")[2] for kind, came in led.items()
    } == {kind: "?q='" if kind == "form" else "'" for kind in MOVED}
    for kind, (came, told) in zip(LEADING, made, strict=True):
        if kind not in MOVED:
            assert b"here" in came.body
            error = {"error": "led_away"} if kind in {"post", "elsewhere"} else {}
            assert told["actions"][0] == {"click": "#a", "times": 1, **error}
            assert len(told["actions"]) == 2 - len(error)


MOVED = ("link", "script", "form", "asks")
"""Pages above that lead to another one to which the crawl may go."""

HOSTILE = {
    "alerts": "onclick = () => { for (;;) alert('stay') }",
    "busy": "onclick = () => { for (;;); }",
    "windows": "onclick = () => { for (let n = 0; n < 300; n++) open('/window' + n) }",
    "blank": "onclick = () => { location = 'about:blank' }",
    "changing": "onclick = () => setInterval(() => { document.title += 'a' }, 20)",
    "asking": "onclick = () => { (async () => { for (;;) await fetch('/data') })() }",
    "printing": "onclick = () => { print(); prompt('a'); confirm('b'); close() }",
    "moving": "const f = () => { b.style.top = 500 * Math.random() + 'px';"
    " requestAnimationFrame(f) }; f()",
    "growing": "onscroll = () => document.body.append(Object.assign(document.createElement('p'),"
    " {style: 'height: 3000px'}))",
    "waiting": "onclick = () => fetch('/never')",
}
"""Scripts of pages that do not let a click, or a scroll, end."""


async def test_a_hostile_page_is_delivered_in_time(
    bench: RenderBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a click begins, it ends in its time and bounds, and the next page is as usual."""
    monkeypatch.setattr(actions, "_ALL_S", 4.0)
    monkeypatch.setattr(actions, "_STEP_S", 2.0)
    monkeypatch.setattr(actions, "_ANSWERED_S", 1.0)
    bench.rule(render=20)
    body = "<b id=b style='position: absolute'>b</b><p style='height: 2000px'>"
    pages = [made_by(code, body) for code in HOSTILE.values()]
    wished = [({"click": "#b", "times": 2}, {"scroll": 5}, {"press": "a"})] * len(pages)
    more = {"/data": Answer(b"1"), "/never": Answer(b"1", after_s=9)}
    with serving(more) as site:
        made = await acted_at_once(bench, pages, wished, site)
        seen = Counter(visit.path for visit in site.visits)
    for kind, (came, told) in zip(HOSTILE, made, strict=True):
        assert came.status == 200
        assert told["actions"], kind
        assert told["ms"] < 30_000, kind
    assert seen["/data"] == 20
    assert not [path for path in seen if path.startswith("/window")]
    await acted(bench, html("<p>here"), {"wait": 1})
    assert bench.told["complete"]
