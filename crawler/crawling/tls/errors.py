"""What libcurl says to a call that cannot be."""


class CurlError(Exception):
    """A defect of ours, or of this libcurl: no request fails by it."""
