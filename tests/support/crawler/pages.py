"""Pages as sites really have them: shops, forums, manuals, old tables; in many charsets, damaged.

The same number makes the same page.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from scrapy.http import HtmlResponse

_WORDS = {
    "utf-8": "shoes Größe naïve 日本 цена ελ 한국 😀 café",
    "iso-8859-1": "shoes Größe naïve café señor año",
    "windows-1252": "shoes “quoted” Größe €",
    "windows-1251": "цена товар ещё один форум",
    "shift_jis": "日本語 の ページ 一覧",
    "euc-kr": "한국어 게시판 목록",
    "gb18030": "中文 论坛 列表 漢字",
    "koi8-r": "цена товар форум",
    "utf-16": "shoes Größe 日本",
}
"""By charset, what can be written in it."""
_SITES = (
    "http://shop.example", "https://www.forum.example", "http://docs.example:8080/manual/v2",
    "http://127.0.0.7:8000", "https://xn--bcher-kva.example",
)  # fmt: skip


class _Site:
    """Common properties of the pages of a site, and a probability for each choice."""

    def __init__(self, number: int) -> None:
        self.chance = Random(number)
        self.charset = self.chance.choice(list(_WORDS))
        self.root = self.chance.choice(_SITES)
        self.url = self.root + self.chance.choice(["/", "/a/b/list.php?page=2&sort=x", "/p/é/"])
        self.words = _WORDS[self.charset].split()

    def words_of(self, count: int) -> str:
        """Some text."""
        return " ".join(self.chance.choices(self.words, k=count))

    def href(self) -> str:
        """Where a link leads, in the ways that sites write it."""
        number, word = self.chance.randrange(60), self.chance.choice(self.words)
        return self.chance.choice(
            [
                f"/item/{number}", f"item-{number}.html", f"../up/{number}/", f"?page={number}",
                f"{self.root}/full/{number}", f"//cdn.example/{number}.js", f"#{number}", "",
                f"/search?q={word}&amp;p={number}", f"/search?p={number}&q={word}", f"./{word}/",
                f"/dir/./a/../b{number}", f" /spaced/{number} ", f"/tab\t{number}\n/x",
                f"/%7Euser/{number}", f"/caf%C3%A9/{number}", f"/caf%e9/{number}",
                f"/file{number}.PDF", f"/pic{number}.jpg?x=1", f"/plus+and%20{number}",
                f"/archive.tar.gz;v={number}", "javascript:void(0)", "mailto:a@b.example", "tel:+1",
                f"HTTPS://EXAMPLE.com:443/{number}", f"http://user:pw@a.example/{number}",
                f"/a|b/{number}", f"/a\\b/{number}", f"/{'deep/' * (number % 9)}x", "http://[::1]/x",
                f"/p;jsessionid={number}?a=&b", f"http:/one-slash/{number}", "http://a.example:99999/",
                "ftp://files.example/x", "http://", "/*.html", f"/x?a={word}#frag{word}", "about:",
            ]
        )  # fmt: skip

    def link(self) -> str:
        """An anchor, in the ways that sites write it."""
        href, text = self.href(), self.words_of(self.chance.randrange(4))
        return self.chance.choice(
            [
                '<a href="{href}">{text}</a>',
                "<a class=x href='{href}' rel=nofollow>{text}</a>",
                '<A HREF="{href}" TARGET=_blank><B>{text}</B> more</A>',
                '<a href="{href}"><img src=/i.png alt="{text}"></a>',
                '<a href="{href}" title="a &lt; b">{text}&nbsp;&raquo;</a>',
                '<a\n  data-id="1"\n  href="{href}"\n>\n  {text}\n</a>',
                "<map><area shape=rect href='{href}' alt='{text}'></map>",
                '<a href="{href}" href="/second">{text}</a>',
                "<a name={text}>{text}</a>",
                '<a href="{href}">{text}<!-- note --> tail</a>',
                "<svg><a xlink:href='{href}'>{text}</a></svg>",
                '<link rel=next href="{href}">',
            ]
        ).format(href=href, text=text)

    def links(self, count: int) -> list[str]:
        """Several."""
        return [self.link() for _ in range(count)]


def _shop(site: _Site) -> str:
    rows = "".join(f"<li class=p><h3>{each}</h3><b>9,99</b></li>" for each in site.links(24))
    return f"<nav>{' | '.join(site.links(8))}</nav><ul class=grid>{rows}</ul>"


def _forum(site: _Site) -> str:
    posts = (
        f"<tr><td>{site.link()}<br><small>{site.words_of(2)}</small>"
        f"<td><blockquote>{site.words_of(30)} {site.link()}</blockquote>"
        for _ in range(12)
    )
    return f"<table border=0 cellpadding=4>{''.join(posts)}</table><p>{' '.join(site.links(6))}"


def _manual(site: _Site) -> str:
    parts = "".join(
        f"<h2 id=s{number}>{number}. {site.words_of(3)}</h2><p>{site.words_of(40)} {site.link()}"
        f'<pre><code>&lt;a href="no"&gt; {site.words_of(3)}</code></pre>'
        for number in range(6)
    )
    return f"<div class=toctree><ol><li>{'<li>'.join(site.links(20))}</ol></div>{parts}"


def _front(site: _Site) -> str:
    teasers = "".join(
        f"<article><header>{each}</header><p>{site.words_of(20)}</p></article>"
        for each in site.links(15)
    )
    script = '<script>document.write("<a href=/written>no</a>");</script>'
    return f"{script}<main>{teasers}</main><footer>{''.join(site.links(12))}</footer>"


def _listing(site: _Site) -> str:
    rows = "\n".join(f"{each}   21-Nov-2026  12K" for each in site.links(30))
    return f"<h1>Index of /pub</h1><pre><a href='?C=N;O=D'>Name</a>\n<hr>{rows}<hr></pre>"


def _empty(site: _Site) -> str:
    return f"<div id=app></div><noscript>{site.link()}</noscript><template>{site.link()}</template>"


_SHAPES: tuple[Callable[[_Site], str], ...] = (_shop, _forum, _manual, _front, _listing, _empty)

HOPELESS_BASE = "<base href='http://['>"
"""Over this Scrapy's extractor gives up."""

_HEADS = (
    "",
    "<base href='/other/base/'>",
    '<base href="http://base.example/b/?x" target=_top>',
    "<!-- <base href='/commented/'> -->",
    "<base target=_blank>",
    HOPELESS_BASE,
)


def _undamaged(text: str) -> str:
    return text


_DAMAGES: tuple[Callable[[str], str], ...] = (
    _undamaged,
    _undamaged,
    lambda text: text.replace("</a>", "", 5),
    lambda text: text.replace("</li>", "</div>").replace("</td>", ""),
    lambda text: text[: len(text) * 3 // 4],
    lambda text: text.replace('">', ">", 3),
    lambda text: text.replace("<p>", "<p <p><![CDATA[ <a href=/cdata>x</a> ]]>", 2),
    lambda text: text.replace("<b", "<\x00b", 2).replace("<h", "</body></html><h", 1),
    lambda text: "<!-- never closed" + text[:200] + "-->" + text,
    lambda text: text.replace("<a ", "<a href=/outer><a ", 2),
    lambda text: text.replace("<", "<x:", 3) + "<frameset><frame src=/f></frameset>",
)


def shaped_page(number: int) -> HtmlResponse:
    """Page ``number`` as Scrapy gets it."""
    site = _Site(number)
    shape, damage = _SHAPES[number % len(_SHAPES)], site.chance.choice(_DAMAGES)
    says = site.chance.choice(["header", "meta", "http-equiv", "nothing", "a lie"])
    meta = {
        "meta": f"<meta charset={site.charset}>",
        "http-equiv": f'<meta http-equiv=Content-Type content="text/html; charset={site.charset}">',
        "a lie": "<meta charset=us-ascii>",
    }.get(says, "")
    head = f"<head>{meta}<title>{site.words_of(3)}</title>{site.chance.choice(_HEADS)}</head>"
    doctype = site.chance.choice(["<!doctype html>", '<?xml version="1.0"?>\n', "\n\n", ""])
    text = f"{doctype}<html>{head}<body>{damage(shape(site))}</body></html>"
    charset = f"; charset={site.charset}" if says == "header" else ""
    return HtmlResponse(
        site.url,
        headers={"Content-Type": f"text/html{charset}"},
        body=text.encode(site.charset, "replace"),
    )
