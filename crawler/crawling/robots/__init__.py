"""robots.txt: what a site asks of robots, known to all and obeyed for each page."""
