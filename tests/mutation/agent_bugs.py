"""Bugs in the tools of agents: in permissions, in marks of data, and in bounds."""

from __future__ import annotations

from mutation.bug import Bug

AGENT_BUGS = {
    "tools that change crawls are there by default": Bug(
        module="rest_service.agents.mcp_server",
        right="for tool in TOOLS if may_change or not tool.changes}",
        wrong="for tool in TOOLS}",
        test="unit/rest/agents/test_agent_tools.py::unless_the_operator_permits",
    ),
    "tools beyond the role of a key are listed": Bug(
        module="rest_service.agents.mcp_server",
        right=" for tool in tools.values() if tool.role <= role]",
        wrong=" for tool in tools.values()]",
        test="unit/rest/agents/test_agent_tools.py::by_what_their_caller_may_do",
    ),
    "the mark of a fence is always the same": Bug(
        module="rest_service.agents.page_fence",
        right="    mark = secrets.token_hex(6)\n",
        wrong='    mark = "0123456789ab"\n',
        test="unit/rest/agents/test_agent_tools.py::cannot_close",
    ),
    "text of a page is among the facts": Bug(
        module="rest_service.agents.mcp_server",
        right='_TEXTS: Any = {"content": True,',
        wrong='_TEXTS: Any = {"contents": True,',
        test="unit/rest/agents/test_agent_tools.py::cannot_close",
    ),
    "a URL writes sentences before the fence": Bug(
        module="rest_service.agents.page_fence",
        right='    named = _NOT_IN_URLS.sub("", source)[:_LONGEST_URL]\n',
        wrong="    named = source[:_LONGEST_URL]\n",
        test="unit/rest/agents/test_agent_tools.py::nothing_of_a_url_but_a_url",
    ),
    "a crawl of a model does not end": Bug(
        module="rest_service.agents.crawl_tools",
        right='        "max_pages": wanted.max_pages,\n',
        wrong="",
        test="unit/rest/agents/test_agent_tools.py::has_an_end",
        red_by=("KeyError",),
    ),
    "a search has no end": Bug(
        module="rest_service.agents.search_tool",
        right="        if result.at_end or len(result.pages) >= _ENOUGH",
        wrong="        if result.at_end",
        test="unit/rest/agents/test_site_tools.py::search_has_a_bound",
    ),
    "a search forgets what it has found": Bug(
        module="rest_service.agents.search_tool",
        right="            if not number:\n                raise\n            break\n",
        wrong="            raise\n",
        test="unit/rest/agents/test_site_tools.py::search_has_a_bound",
    ),
    "a list of URLs has any length": Bug(
        module="rest_service.agents.map_tool",
        right="        if left < 0 and lines:\n            break\n",
        wrong="",
        test="unit/rest/agents/test_site_tools.py::long_urls_has_a_bound",
    ),
    "a part of a list skips URLs": Bug(
        module="rest_service.agents.map_tool",
        right="    end = wanted.start + len(lines)\n",
        wrong="    end = wanted.start + wanted.limit\n",
        test="unit/rest/agents/test_site_tools.py::long_urls_has_a_bound",
    ),
    "anybody may call tools": Bug(
        module="rest_service.http.access",
        right='    ("POST", "/mcp"): Role.READ,\n',
        wrong='    ("POST", "/mcp"): Role.ANYONE,\n',
        test="unit/rest/test_access.py::each_role_may_do",
    ),
    "texts of results take any time": Bug(
        module="rest_service.topics.contents",
        right="            is_late = time.monotonic() > until\n",
        wrong="            is_late = False\n",
        test="unit/rest/test_contents.py::take_too_long",
    ),
}
