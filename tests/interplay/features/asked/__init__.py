"""Features that are fields of a crawl request."""
