"""Signed requests (Web Bot Auth): keys, the signature of a request, the published directory."""
