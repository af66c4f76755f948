"""The HTTP client of the fetch lane: libcurl on the event loop, behind the gate.

``http_client`` takes a request and its page and returns a response. ``transfer`` is one request
with libcurl's callbacks; each can refuse: the address, the grant or the body. ``multi`` advances
all transfers as their sockets become ready. ``clock`` bounds a download without its pauses,
``curl_request`` passes it a request, ``answer`` builds Scrapy's response, ``curl_failures`` maps
libcurl's error codes to reasons.
"""
