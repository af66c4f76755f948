"""The HTTP client of the fetch lane: libcurl on the event loop, behind the gate.

``http_client`` takes a request and its page and comes back with a response; ``transfer`` is one
request as libcurl tells of it, and where it asks for leave: for an address to connect to, a grant
to spend, a body to take; ``multi`` moves all of them as their sockets become ready. ``clock``
bounds a download without its pauses, ``answer`` makes Scrapy's response of what came, ``errors``
tells what libcurl's error codes mean.
"""
