"""Forty small sites as frameworks build them: each page as it is sent, and as a browser makes it.

Twenty send shells, ten send pages that scripts take over (hydration), ten do without such scripts.
Some are difficult on purpose: shells with a menu and a footer, stubs of a line with a script that
counts visits, cookie banners, related articles that a script adds, a blog next to an application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

VITE = Path(__file__).parents[1] / "crawler" / "vue_app" / "built" / "index.html"
PAGES = 60
_WORDS = [
    "harbour", "meadow", "engine", "copper", "lantern", "orchard", "signal", "timber", "velvet",
    "winter", "anchor", "basket", "cellar", "dragon", "ember", "falcon", "garden", "hammer",
]  # fmt: skip
_COUNTER = '<script async src="https://count.example/c.js"></script>'
_MENU = (
    "<nav>{}</nav>".format(
        "".join(
            f'<a href="/{name}">{name.title()} of this site</a>'
            for name in ("about", "contact", "jobs", "press", "privacy")
        )
    )
)  # fmt: skip
_FOOTER = (
    "<footer><p>All rights are reserved. Prices include tax. Delivery takes three to five days"
    " within the country, and up to two weeks elsewhere. Read the terms and conditions.</p>"
    "</footer>"
)


class SmallPage(NamedTuple):
    """Document as it is sent and as it is shown."""

    sent: str
    made: str
    """Document that a browser makes of it."""
    needs_browser: bool


@dataclass(frozen=True)
class SmallSite:
    """Pages by path."""

    name: str
    kind: str
    """``shell``, ``hydrated`` or ``plain``."""
    pages: Mapping[str, SmallPage]


Frame = Callable[[str, str, Random], SmallPage]
"""Makes the page of a title and a content, which is its text and links."""


def small_sites(seed: int) -> Iterator[SmallSite]:
    """Yield the sites; texts, links and paths follow from the seed."""
    kinds = {"shell": _SHELLS, "hydrated": _HYDRATED, "plain": _PLAIN}
    amounts = {"shell": 20, "hydrated": 10, "plain": 10}
    for kind, frames in kinds.items():
        for number in range(amounts[kind]):
            name, frame = [*frames.items()][number % len(frames)]
            random = Random(f"{seed} {kind} {number}")
            yield SmallSite(f"{name}-{number}", kind, _pages(frame, random))


def _pages(frame: Frame, random: Random) -> Mapping[str, SmallPage]:
    """Return a tree of lists and articles, in families of their own."""
    section, item = random.choice((("shop", "item"), ("news", "story"), ("docs", "guide")))
    paths = ["/", *(f"/{section}/{n}" for n in range(8))]
    paths += [f"/{item}/{random.choice(_WORDS)}/{n}" for n in range(PAGES - len(paths))]
    links = {path: list[str]() for path in paths}
    for place, path in enumerate(paths[1:], 1):
        parent = paths[min(place, 9 + place) // 7 if place > 8 else 0]
        links[parent].append(path)
    return {path: frame(path, _content(path, links[path], random), random) for path in paths}


def _content(path: str, links: list[str], random: Random) -> str:
    text = "".join(f"<p>{_sentence(random)}</p>" for _ in range(random.randint(2, 8)))
    listed = "".join(f'<li><a href="{each}">{_sentence(random, 4)}</a></li>' for each in links)
    return f"<h1>About {path} {_sentence(random, 3)}</h1>{text}<ul>{listed}</ul>"


def _sentence(random: Random, words: int = 14) -> str:
    return " ".join(random.choices(_WORDS, k=words)) + f" {random.randrange(1_000_000)}."


def _document(body: str, head: str = "", title: str = "A site") -> str:
    return (
        f"<!DOCTYPE html><html><head><title>{title}</title>{head}</head><body>{body}</body></html>"
    )


_BUNDLE = '<script type="module" src="/assets/index-4f3a.js"></script>'


# Shells.


def _vite(_path: str, content: str, _random: Random) -> SmallPage:
    sent = VITE.read_text()
    made = sent.replace('<div id="app"></div>', f'<div id="app" data-v-app="">{content}</div>')
    return SmallPage(sent, made, needs_browser=True)


def _in_root(root: str, *, head: str = _BUNDLE, around: str = "", after: str = "") -> Frame:
    """Return a frame whose content takes the place of `{}` in a root element."""

    def frame(path: str, content: str, _random: Random) -> SmallPage:
        sent = _document(around + root.replace("{}", "") + after, head)
        made = _document(around + root.replace("{}", content) + after, head, path)
        return SmallPage(sent, made, needs_browser=True)

    return frame


_NO_SCRIPT = "<noscript>You need to enable JavaScript to run this app.</noscript>"
_STATE = f'<script id="__NEXT_DATA__" type="application/json">{{"a":"{"x" * 400}"}}</script>'


def _loading(path: str, content: str, _random: Random) -> SmallPage:
    sent = _document('<div id="root"><p>Loading …</p></div>' + _NO_SCRIPT, _BUNDLE)
    made = _document(f'<div id="root">{content}</div>' + _NO_SCRIPT, _BUNDLE, path)
    return SmallPage(sent, made, needs_browser=True)


def _unknown_place(path: str, content: str, _random: Random) -> SmallPage:
    """A menu and a footer, and the article in an element without a usual name."""
    sent = _document(f'{_MENU}<div class="c-9x"></div>{_FOOTER}', _BUNDLE, path)
    made = _document(f'{_MENU}<div class="c-9x">{content}</div>{_FOOTER}', _BUNDLE, path)
    return SmallPage(sent, made, needs_browser=True)


def _blog_beside(path: str, content: str, random: Random) -> SmallPage:
    """An application whose articles are documents of their own."""
    if path.startswith(("/item", "/story", "/guide")):
        return _analytics(path, content, random)
    return _in_root('<div id="root">{}</div>')(path, content, random)


def _behind_plain(path: str, content: str, random: Random) -> SmallPage:
    """Articles with a menu and a footer but no text, behind lists that are complete."""
    is_article = path.startswith(("/item", "/story", "/guide"))
    return (_unknown_place if is_article else _analytics)(path, content, random)


_SHELLS: Mapping[str, Frame] = {
    "vite-vue": _vite,
    "react": _in_root('<div id="root">{}</div>', around=_NO_SCRIPT),
    "angular": _in_root("<app-root>{}</app-root>"),
    "next-client": _in_root('<div id="__next">{}</div>', after=_STATE),
    "framed": _in_root("<main>{}</main>", around=_MENU, after=_FOOTER),
    "loading": _loading,
    "written": _in_root('<div class="page">{}</div>', head="<script>start()</script>"),
    "unknown-place": _unknown_place,
    "blog-beside": _blog_beside,
    "behind-plain": _behind_plain,
}


# Hydrated.


def _drawn(root: str, *, after: str = "", added: str = "") -> Frame:
    """Return a frame that is sent complete; scripts add what is `added`."""

    def frame(path: str, content: str, _random: Random) -> SmallPage:
        body = root.replace("{}", _MENU + content) + after
        return SmallPage(
            _document(body, _BUNDLE, path),
            _document(body + added, _BUNDLE, path),
            needs_browser=False,
        )

    return frame


_BANNER = "<div class=banner>We use cookies. <button>Accept</button><button>Decline</button></div>"


def _clock(path: str, content: str, random: Random) -> SmallPage:
    at = random.randrange(100_000)
    body = f'<div id="__next"><p>Read {at} times</p>{_MENU}{content}</div>{_STATE}'
    made = body.replace(f"Read {at} times", f"Read {at + 1} times")
    return SmallPage(
        _document(body, _BUNDLE, path), _document(made, _BUNDLE, path), needs_browser=False
    )


_HYDRATED: Mapping[str, Frame] = {
    "next": _drawn('<div id="__next">{}</div>', after=_STATE),
    "nuxt": _drawn('<div id="__nuxt">{}</div>', after="<script>window.__NUXT__={}</script>"),
    "banner": _drawn('<div id="root">{}</div>', added=_BANNER),
    "islands": _drawn(
        "<main>{}</main>", added="<astro-island><button>Like</button></astro-island>"
    ),
    "counter": _clock,
}


# Plain.


def _analytics(path: str, content: str, _random: Random) -> SmallPage:
    page = _document(_MENU + content + _FOOTER, _COUNTER, path)
    return SmallPage(page, page, needs_browser=False)


def _scriptless(path: str, content: str, _random: Random) -> SmallPage:
    page = _document(content, "", path)
    return SmallPage(page, page, needs_browser=False)


def _stub(path: str, content: str, _random: Random) -> SmallPage:
    """A line of text and its links, with a script that counts visits."""
    links = content[content.index("<ul>") :]
    page = _document(f"<p>Entry of {path}</p>{links}", _COUNTER, path)
    return SmallPage(page, page, needs_browser=False)


_PLAIN: Mapping[str, Frame] = {
    "analytics": _analytics,
    "scriptless": _scriptless,
    "stub": _stub,
    "jquery": _drawn("<div id=page>{}</div>", after=_COUNTER),
    "warned": _drawn("<div id=page>{}</div>", after=_NO_SCRIPT),
}
