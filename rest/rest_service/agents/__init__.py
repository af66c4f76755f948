"""Tools for language models: an MCP server (Model Context Protocol) in front of ``/v2``.

``agent_tools``   the table of tools, with the arguments and results that their schemas are made of
``v2_client``     calls the REST service for a tool, with the key of the tool's caller
``tool_refusals`` errors of REST, as sentences that a model can act on
``page_fence``    marks text of websites as data
``mcp_server``    serves the table with the protocol's own library
``mcp_route``     the server at ``/mcp`` of the REST service
``mcp_stdio``     the server on standard input and output of a command

A tool can do nothing that its caller could not do over HTTP with the same key: it is a client of
the same routes, also within the REST service. Nothing is kept between two calls, so any process
answers any of them. The libraries are an extra, so all of this is imported only where it is wanted.
"""
