"""Programs of a project: its spiders, plugins, and whatever imports Scrapy Cluster."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from crawlstream_cli.migrate.finding import Finding, Remedy
from crawlstream_cli.migrate.known import (
    CLASSES,
    MODULES,
    OWN_CLASSES,
    REDIS_KEYS,
    SETTINGS,
    SPIDERS,
)

_NAMES = {
    "RawResponseItem": (
        Remedy.CHANGE,
        "yield self.result(response, attrs={…}) fills all fields",
    ),
    "reconstruct_headers": (Remedy.CHANGE, "remove it: the result has all headers"),
    "set_logger": (Remedy.CHANGE, "remove it: self.logger writes to the log of the crawler"),
    "_logger": (Remedy.CHANGE, "use the `logger` of the spider: self.logger, or spider.logger"),
    "redis_conn": (
        Remedy.CHANGE,
        "not there: keep data of your own elsewhere; the frontier's Redis has another layout",
    ),
    "setup_redis": (Remedy.CHANGE, "remove it: the frontier feeds the spider"),
}
"""Replacement of a call or an attribute with this name."""

_OWN = "your own: move it to a package of another name (`crawling` is crawlstream's)"

_META = {
    "curdepth": "the frontier counts the depth: each request is one level deeper than its page;"
    " raise `maxdepth`, or set obeys_maxdepth = False in the spider",
    "priority": "not read: give the request itself a `priority`, which is added to its page's",
}
"""Keys of a request's meta that a spider may set, and what has their effect here."""

_METHODS = {
    "from_settings": "Scrapy no longer calls it: write from_crawler(cls, crawler), which reads"
    " crawler.settings",
}
"""Methods of any class that have no effect."""


def is_of_scrapy_cluster(file: str, tree: ast.Module) -> bool:
    """Return whether a module has only classes of Scrapy Cluster itself."""
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return _is_in_crawling(file) and bool(names) and names <= OWN_CLASSES


def _is_in_crawling(file: str) -> bool:
    return "crawling" in file.split("/")[:-1]


def code_findings(file: str, tree: ast.Module) -> Iterator[Finding]:
    """Yield findings about the imports, classes, calls and Redis keys of a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from _imports(file, node)
            case ast.ClassDef():
                yield from _class(file, node)
            case ast.Call(func=ast.Name(id=name)) | ast.Attribute(attr=name) if name in _NAMES:
                yield Finding(file, node.lineno, name, *_NAMES[name])
            case (
                ast.Call(func=ast.Name(id="Request")) | ast.Call(func=ast.Attribute(attr="follow"))
            ):
                yield from _request(file, node)
            case ast.Constant(value=str(text)):
                yield from _redis_key(file, node.lineno, text)
            case _:
                yield from _without_effect(file, node)


def _without_effect(file: str, node: ast.AST) -> Iterator[Finding]:
    """Yield a finding about a method that is not called, or a value that is not read."""
    match node:
        case ast.FunctionDef(name=name) if name in _METHODS:
            yield Finding(file, node.lineno, name, Remedy.CHANGE, _METHODS[name])
        case ast.Assign(
            targets=[ast.Subscript(value=ast.Attribute(attr="meta"), slice=ast.Constant(key))]
        ) if key in _META:
            yield Finding(file, node.lineno, str(key), Remedy.CHANGE, _META[str(key)])
        case _:
            pass


def _imports(file: str, node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
    if isinstance(node, ast.ImportFrom):
        if node.level:
            return
        modules = [node.module or ""]
    else:
        modules = [alias.name for alias in node.names]
    for module in modules:
        fitting = [known for known in MODULES if f"{module}.".startswith(f"{known}.")]
        if not fitting or _is_of_here(module, node):
            continue
        if module == "crawling.items" and "RawResponseItem" not in _names_of(node):
            yield Finding(file, node.lineno, module, Remedy.CHANGE, _OWN)
        else:
            yield Finding(file, node.lineno, module, *MODULES[max(fitting, key=len)])


def _names_of(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names}


def _is_of_here(module: str, node: ast.Import | ast.ImportFrom) -> bool:
    """Return whether the import is from crawlstream's own package."""
    ours = {"ClusterSpider", "CrawlResult", "Outlink", "Outlinks", "links_of"}
    return module == "crawling" and ours >= _names_of(node)


def _class(file: str, node: ast.ClassDef) -> Iterator[Finding]:
    if node.name in OWN_CLASSES:
        yield Finding(file, node.lineno, node.name, Remedy.UNUSED, "part of Scrapy Cluster")
        return
    if _is_in_crawling(file):
        yield Finding(file, node.lineno, node.name, Remedy.CHANGE, _OWN)
    bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    known = [base for base in bases if base in CLASSES]
    for base in known[:1]:
        yield Finding(file, node.lineno, f"{node.name}({base})", *CLASSES[base])
        if base in SPIDERS:
            yield from _spider(file, node)
        elif base in {"BaseMonitor", "KafkaBaseMonitor", "BaseHandler"}:
            yield from _plugin(file, node)


def _spider(file: str, node: ast.ClassDef) -> Iterator[Finding]:
    """Yield findings about parts of a class that are useless when the frontier feeds it."""
    for part in node.body:
        targets = part.targets if isinstance(part, ast.Assign) else []
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [part.name]
        for name in {"start_urls", "start_requests", "start"} & set(names):
            advice = "not used: feed these URLs as crawl requests (crawlstream feed FILE)"
            yield Finding(file, part.lineno, name, Remedy.CHANGE, advice)
        if "download_delay" in names:
            yield Finding(file, part.lineno, "download_delay", *SETTINGS["DOWNLOAD_DELAY"])
        if "custom_settings" in names:
            advice = "stays, except for what the cluster decides (docs/spiders.md)"
            yield Finding(file, part.lineno, "custom_settings", Remedy.WORKS, advice)
            yield from _decided(file, part.value) if isinstance(part, ast.Assign) else ()


def _decided(file: str, settings: ast.expr) -> Iterator[Finding]:
    """Yield findings about settings of a spider that the cluster decides."""
    for key in settings.keys if isinstance(settings, ast.Dict) else ():
        if isinstance(key, ast.Constant) and (fate := SETTINGS.get(str(key.value))):
            yield Finding(file, key.lineno, str(key.value), *fate)


def _plugin(file: str, node: ast.ClassDef) -> Iterator[Finding]:
    """Yield findings about the attributes of a plugin."""
    better = {
        "schema": "the schema itself, as Schema({…}), in place of the name of its file",
        "regex": "an action gets requests by its `name`, not by an expression over Redis keys",
        "handle": "returns what it does to the frontier: self.seed, self.command or None",
        "check_precondition": "remove it: answer() decides",
    }
    if any("Monitor" in ast.unparse(base) for base in node.bases):
        better["handle"] = "`async def answer(self, action)` returns a Reply"
    for part in node.body:
        targets = part.targets if isinstance(part, ast.Assign) else []
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        names += [part.name] if isinstance(part, ast.FunctionDef) else []
        for name in names:
            if name in better:
                yield Finding(file, part.lineno, name, Remedy.CHANGE, better[name])


def _request(file: str, node: ast.Call) -> Iterator[Finding]:
    """Yield findings about parts of a request that cannot be sent to another worker."""
    for keyword in node.keywords:
        text = ast.unparse(keyword.value)
        told = None
        if keyword.arg == "meta" and text == "response.meta":
            told = Remedy.UNUSED, "may stay; what a page inherits travels without it"
        elif keyword.arg == "cb_kwargs":
            told = Remedy.CHANGE, "use meta: cb_kwargs cannot be stored in the frontier"
        elif keyword.arg in {"callback", "errback"} and isinstance(keyword.value, ast.Lambda):
            told = Remedy.CHANGE, "name a method of the spider: a lambda cannot be stored"
        elif keyword.arg == "errback":
            told = Remedy.CHANGE, "never called: a page that fails is a `page_failed` event"
        elif keyword.arg == "meta" and re.search(r"['\"](proxy|bindaddress)['\"]", text):
            told = Remedy.CHANGE, "only a middleware may choose a proxy or address"
        if told:
            yield Finding(file, keyword.value.lineno, f"{keyword.arg}={text:.40}", *told)


def _redis_key(file: str, line: int, text: str) -> Iterator[Finding]:
    """A string that looks like a key of the old Redis."""
    if " " in text or len(text) > 200:
        return
    for expression, instead in REDIS_KEYS.items():
        if re.search(expression, text):
            yield Finding(file, line, text[:60], Remedy.CHANGE, instead)
            return
