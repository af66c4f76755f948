"""Pages that mean to cost a parser more than their length: a shape for each dimension of HTML."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

Shape = Callable[[int], str]
"""Makes a page of about that number of characters."""

_ELEMENTS = (
    *(
        "a",
        "b",
        "font",
        "nobr",
        "span",
        "p",
        "h1",
        "li",
        "dl",
        "form",
        "button",
        "ruby",
        "template",
    ),
    *("table", "select", "option", "svg", "math", "object", "frameset", "body", "head", "noscript"),
    *("script", "title", "textarea", "iframe", "plaintext", "div"),
)
_ATTRIBUTES = (
    *(" a{}", " a{}=1", "\ta{}=''", " a{}='>'", ' a{}=">"', " a{}='<b>'", " a{} = \n'/>'"),
    *("/a{}/", " a{}=>", "\x0ca{}", " a{0}=\"'\" b{0}='\">'"),
)
_REPEATED = {
    "the same attribute": ("<p", " a=b"),
    "misnested formatting": ("", "<a href=/x><b>"),
    "misnested formatting in blocks": ("", "<a href=/x><b><p>"),
    "reopened formatting": ("", "<b><p></b>"),
    "nested tables": ("", "<table><tr><td>"),
    "what a table does not hold": ("", "<table><b>"),
    "cells": ("<table><tr>", "<td>"),
    "nested lists": ("", "<ul><li>"),
    "entities": ("", "&amp;"),
    "ampersands": ("", "&"),
    "entities without an end": ("", "&notit"),
    "numbers of characters": ("", "&#x41;"),
    "no numbers of characters": ("", "&#"),
    "entities in a value": ("<p a='", "&amp"),
    "comments": ("", "<!-- -->"),
    "open comments": ("", "<!--"),
    "dashes": ("<!--", "-"),
    "comments that do not end": ("<!--", "--!"),
    "declarations": ("", "<!DOCTYPE html>"),
    "open declarations": ("", "<!DOCTYPE "),
    "no comments": ("", "<!x>"),
    "joined documents": ("", "<a/><?xml version='1.0'?>"),
    "XML declarations": ("", "<?xml "),
    "open tags with a value": ("", "<a b='c'"),
    "processing instructions": ("", "<?x?>"),
    "open processing instructions": ("", "<?"),
    "CDATA": ("<svg>", "<![CDATA[x]]>"),
    "open CDATA": ("<svg>", "<![CDATA["),
    "NUL": ("", "\0<\0a\0>"),
    "angles": ("", "<"),
    "closing angles": ("", ">"),
    "open tags": ("", "<a"),
    "open end tags": ("", "</"),
    "open values": ("", "<a href='"),
    "a script of angles": ("<script>", "<"),
    "a script of comments": ("<script>", "<!--"),
    "a script of scripts": ("<script><!--", "<script>"),
    "a script of ends": ("<script>", "</script"),
    "a title of ends": ("<title>", "</t"),
    "a long name": ("<", "a"),
    "a long name of an attribute": ("<p ", "a"),
    "a long text": ("", "x"),
    "quotes in quotes": ('<a href="', "'"),
    "spaces in a tag": ("<a", " "),
    "equals signs": ("<p ", "="),
    "metas": ("", "<meta name=a content=b>"),
    "texts": ("", "x<br>"),
    "deep comments": ("", "<!-- --><b>"),
    "deep scripts": ("", "<script></script><b>"),
    "deep refreshes": ("<noscript>" + "<div>" * 2030, "<meta http-equiv=refresh content=5>"),
    "deep texts": ("<b>" * 240, "x<br>"),
    "wide letters": ("", "\U0001f600<b>"),
    "blocks of JSON": ("", '<script type="application/ld+json">{}</script>'),
    "deep JSON": ('<script type="application/ld+json">', "["),
    "values with brackets": ("", "<p a='<b>' c='>'>"),
}
_COUNTED = {
    "links": ("", "<a href=/{0}>x</a>"),
    "deep links": ("<div>" * 2030, "<a href=/{0}>x"),
    "different fonts": ("", "<font size={0}>"),
    "different elements": ("", "<t{0}>"),
    "different ends": ("", "</t{0}>"),
    "different prefixes": ("", "<x:{0} xmlns:x{0}='u'>"),
    "namespaces": ("<a", " xmlns:n{0}='u'"),
    **{f"attributes {each!r}": ("<p", each) for each in _ATTRIBUTES},
}


def _repeated(size: int, start: str, item: str) -> str:
    return start + item * ((size - len(start)) // len(item)) + ">"


def _counted(size: int, start: str, item: str) -> str:
    return start + "".join(map(item.format, range(size // len(item.format(99_999))))) + ">"


def _crowds(size: int, attributes: int) -> str:
    """Elements with that number of attributes each."""
    return _repeated(size, "", "<p" + "".join(f" a{n}" for n in range(attributes)) + ">")


def shapes() -> Mapping[str, Shape]:
    """Return all shapes by their names."""
    return dict(_all())


def _all() -> Iterator[tuple[str, Shape]]:
    for name, (start, item) in _REPEATED.items():
        yield name, partial(_repeated, start=start, item=item)
    for name, (start, item) in _COUNTED.items():
        yield name, partial(_counted, start=start, item=item)
    for count in (100, 500, 1000, 4000):
        yield f"{count} attributes each", partial(_crowds, attributes=count)
    for name in _ELEMENTS:
        yield f"open {name}", partial(_repeated, start="", item=f"<{name}>")
        yield f"{name} and its end", partial(_repeated, start="", item=f"<{name}></{name}>")
    for name in ("a", "b", "p", "x"):
        for depth in (250, 2040):
            for item in (f"<{name}>", f"</{name}>"):
                shape = partial(_repeated, start="<div>" * depth, item=item)
                yield f"{item} {depth} deep", shape


_KNOWN_WORK_S = 0.045


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds that work takes, on a core of 2026; a slower one may take longer."""
    began = time.process_time()
    work()
    taken = time.process_time() - began
    return taken / max(1, _known_work_s() / _KNOWN_WORK_S) if taken > 0.1 else taken


def _known_work_s() -> float:
    began = time.process_time()
    for number in range(200_000):
        {str(number): [number]}
    return time.process_time() - began


LONG = os.environ.get("HOSTILE_MARKUP") == "long"
"""True: all shapes are made in 2 MiB as well, which takes a minute and a half."""
