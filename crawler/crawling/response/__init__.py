"""What a response means: a page for the spider, another attempt, a redirect or a failure."""
