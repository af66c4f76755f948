"""Sites asked with the TLS of a browser: by curl_cffi's libcurl, which has BoringSSL.

``targets`` says which browsers. ``handle`` and ``multi`` give that libcurl the shape of pycurl, so
that :mod:`crawling.client` fetches by it as by the other: the same guard, grants, proxies, blame.
"""
