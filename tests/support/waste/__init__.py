"""Generated sites with and without traps, a model of the waste guard, and a crawl of them."""
