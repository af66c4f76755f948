"""The error for a call that libcurl rejects."""


class CurlError(Exception):
    """A bug in crawlstream or in this libcurl; failed requests do not raise it."""
