"""Features that act: who feeds, who steers, who crawls, what is struck."""
