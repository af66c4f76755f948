"""``crawlstream mcp``: tools for language models."""
