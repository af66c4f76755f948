"""``crawlstream throttle``: the rules of domains (``throttle``) and of groups (``groups``)."""
