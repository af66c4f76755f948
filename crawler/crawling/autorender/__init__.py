"""Automatic rendering: which pages of a crawl need a browser, by the form of their URLs."""
