"""Features of the web that is crawled."""
