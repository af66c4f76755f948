"""``crawlstream purse``: money that crawlers may pay for pages."""
