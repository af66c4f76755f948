"""Sites asked with the TLS of a browser: by curl_cffi, a libcurl with BoringSSL.

``targets`` says which browsers; ``exchange`` is one request as libcurl tells of it; ``connection``
is a connection that is kept, and its way out by the gateway; ``client`` fetches pages by them.
The guard, proxies, the fence and the count of bytes are the gateway's: this libcurl cannot be told.
"""
