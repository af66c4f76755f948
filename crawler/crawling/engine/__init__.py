"""Where Scrapy's engine calls: download handler, downloader, middlewares and pipelines."""
