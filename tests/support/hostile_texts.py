"""Texts that would run as scripts on a page that shows them carelessly."""

from __future__ import annotations

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import NextPage, NextPages, NextReason

_SAY = "alert(1)"
_EVENTS = (
    *("onload", "onerror", "onfocus", "onmouseover", "ontoggle", "onanimationstart", "onclick"),
    *("onpointerenter", "onbeforetoggle", "onscrollend", "onpageshow", "oncontentvisibility"),
)
_ELEMENTS = (
    *("img src=x", "svg", "body", "input autofocus", "details open", "video src=x", "iframe"),
    *("marquee", "object data=x", "audio src=x", "select autofocus", "style"),
)
_FIXED = (
    f"<script>{_SAY}</script>",
    f"</script><script>{_SAY}</script>",
    f"</title><script>{_SAY}</script>",
    f"</textarea><script>{_SAY}</script>",
    f"</pre><script>{_SAY}</script>",
    f"</td></tr></table><script>{_SAY}</script>",
    f'"><script>{_SAY}</script>',
    f"'><script>{_SAY}</script>",
    f'" autofocus onfocus="{_SAY}',
    f"' onmouseover='{_SAY}",
    f"` onfocus={_SAY} autofocus `",
    f"javascript:{_SAY}",
    f"<a href=javascript:{_SAY}>x</a>",
    f"<a href=' javascript:{_SAY}' autofocus>x</a>",
    f"<iframe srcdoc='<script>{_SAY}</script>'></iframe>",
    f"<iframe src=javascript:{_SAY}></iframe>",
    f"<form action=javascript:{_SAY}><button autofocus>x</button></form>",
    f"<button formaction=javascript:{_SAY}>x</button>",
    f"<object data='data:text/html,<script>{_SAY}</script>'></object>",
    f"<embed src='data:text/html,<script>{_SAY}</script>'>",
    f"<math><mtext></form><form><mglyph><style></math><img src onerror={_SAY}>",
    f"<svg><script>{_SAY}</script></svg>",
    f"<svg><animate onbegin={_SAY} attributeName=x dur=1s>",
    f"<svg><a xlink:href='javascript:{_SAY}'><text y=9>x</text></a></svg>",
    f"<svg/onload={_SAY}>",
    f"<img src=x:x onerror={_SAY}//",
    f"<img/src/onerror={_SAY}>",
    f"<noscript><p title='</noscript><img src=x onerror={_SAY}>'>",
    f"<template><script>{_SAY}</script></template><script>{_SAY}</script>",
    f"<link rel=stylesheet href='data:text/css,*{{x:y}}'><img src=x onerror={_SAY}>",
    f"<base href='javascript:/a/-{_SAY}///'><a href=../x>x</a>",
    f"<meta http-equiv=refresh content='0;url=javascript:{_SAY}'>",
    f"<style>@import 'javascript:{_SAY}';</style>",
    f"<div style='background:url(javascript:{_SAY})'>x</div>",
    f"&lt;script&gt;{_SAY}&lt;/script&gt;",
    f"&#60;script&#62;{_SAY}&#60;/script&#62;",
    f"\\u003cscript\\u003e{_SAY}\\u003c/script\\u003e",
    f"%3Cscript%3E{_SAY}%3C/script%3E",
    f"{{{{ 7 * 7 }}}}{{% raw %}}<script>{_SAY}</script>",
    f"${{{_SAY}}}",
    f"<!--<script>{_SAY}</script>-->",
    f"<![CDATA[<script>{_SAY}</script>]]>",
    f"]]><script>{_SAY}</script>",
    f"event: live\ndata: <script>{_SAY}</script>\n\n",
    f"\u202e<script>{_SAY}</script>\u2028",
    f"<scr<script>ipt>{_SAY}</scr</script>ipt>",
    f"<SCRIPT SRC=//127.0.0.1/x.js></SCRIPT><img src=x onerror={_SAY}>",
    f"<x contenteditable autofocus onfocus={_SAY}>x</x>",
    f"<dialog open onclose={_SAY}><form method=dialog><button autofocus>x",
    f"<button popovertarget=x>x</button><div popover id=x onbeforetoggle={_SAY}>",
)
SCRIPTS = (
    *_FIXED,
    *(
        f"<{element} {event}={_SAY}>"
        for number, element in enumerate(_ELEMENTS)
        for event in (_EVENTS * 2)[number : number + 5]
    ),
)
"""More than a hundred; each says ``alert(1)`` where it runs."""


def next_pages_of(text: str) -> NextPages:
    """Return one page that is requested next, with a text in all of its fields."""
    page = NextPage(
        url=text,
        domain=text,
        spiderid=text,
        priority=1,
        depth=1,
        attempt=1,
        due_ms=1,
        reason=NextReason.RULE,
        rule=2,
    )
    crawl = CrawlKey("link", "app", "crawl")
    return NextPages(crawl=crawl, run=1, state=text, pages=[page], is_complete=False)
