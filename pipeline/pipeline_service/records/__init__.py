"""Records of the source, judged and counted: pages, rows, what is undelivered."""
