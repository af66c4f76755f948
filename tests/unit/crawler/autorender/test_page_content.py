"""Content of documents, and shells that scripts fill."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse

from crawling.autorender.page_content import PageContent, Shell, content_of
from crawling.autorender.pairs import needs_browser

TEXT = "<p>There is a lot to read here, and all of it was written by somebody.</p>" * 1
LONG = "".join(f"<p>Paragraph {n} of a text that a person may want to read.</p>" for n in range(9))
SCRIPT = "<script src=/a.js></script>"


def _content(body: str) -> PageContent:
    page = f"<!DOCTYPE html><html><head><title>A title</title></head><body>{body}</body></html>"
    return content_of(HtmlResponse("https://a.example/", body=page.encode(), encoding="utf-8"))


@pytest.mark.parametrize(
    ("body", "shell"),
    [
        pytest.param(LONG, Shell.NONE, id="without scripts"),
        pytest.param("", Shell.NONE, id="empty, without scripts"),
        pytest.param(LONG + SCRIPT, Shell.NONE, id="with a script"),
        pytest.param("<div id=root></div>" + SCRIPT, Shell.EVIDENT, id="empty root"),
        pytest.param("<my-app></my-app>" + SCRIPT, Shell.EVIDENT, id="empty custom element"),
        pytest.param("<div id=app>Loading …</div>" + SCRIPT, Shell.EVIDENT, id="loading"),
        pytest.param(SCRIPT, Shell.EVIDENT, id="nothing but a script"),
        pytest.param(
            f"<noscript>Please enable JavaScript.</noscript><p>A</p>{SCRIPT}",
            Shell.EVIDENT,
            id="says that it needs scripts",
        ),
        pytest.param(f"<main></main>{LONG}{SCRIPT}", Shell.LIKELY, id="empty main"),
        pytest.param(TEXT + SCRIPT, Shell.LIKELY, id="a line and a script"),
        pytest.param(
            f'{TEXT}<script type="application/json">{"x" * 300}</script>{SCRIPT}',
            Shell.NONE,
            id="a line with its state",
        ),
        pytest.param(
            f'<div id="root">{LONG}</div><noscript>Use JavaScript</noscript>{SCRIPT}',
            Shell.NONE,
            id="drawn by the server",
        ),
        pytest.param(
            '<script type="application/ld+json">{"a": 1}</script>', Shell.NONE, id="only data"
        ),
        pytest.param(
            f'<main><form action="/login"><input></form></main>{SCRIPT}{LONG}',
            Shell.NONE,
            id="a form",
        ),
    ],
)
def test_shells_are_recognised(body: str, shell: Shell) -> None:
    """By next to nothing to read, and an empty place for the content."""
    assert _content(body).shell is shell


def test_only_what_a_person_sees_is_text() -> None:
    """No titles, scripts, templates or notes for browsers without scripts; spaces do not count."""
    content = _content(
        "<p>One   two</p><noscript>three</noscript><template>four</template><script>five</script>"
        "<a href=/x>six</a><a href=#top>top</a><a href='javascript:void(0)'>run</a>"
    )
    assert content.texts == {"One two", "six", "top", "run"}
    assert content.links == {"/x"}


@pytest.mark.parametrize(
    ("added", "is_needed"),
    [
        ("", False),
        ("<p>We use cookies.</p>", False),
        ("<p>Seen 17 times</p>", False),
        ("<a href=/1>1</a><a href=/2>2</a>", True),
        (LONG.replace("Paragraph", "More"), True),
    ],
)
def test_a_browser_is_needed_for_much_text_or_many_links(*, added: str, is_needed: bool) -> None:
    """Rejects a banner or a counter as a reason."""
    assert needs_browser(_content(LONG + SCRIPT), _content(LONG + added + SCRIPT)) is is_needed


def test_a_browser_is_not_needed_for_what_it_leaves_out() -> None:
    """A page whose scripts remove something is complete as it was sent."""
    assert not needs_browser(_content(LONG + TEXT + SCRIPT), _content(LONG + SCRIPT))
