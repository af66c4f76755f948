"""The proxy pools, from their edit to the crawlers.

They are stored in a ZooKeeper node next to that of the throttle rules, and are watched, read and
edited like them (:mod:`crawlstream.zoo`): ``parse`` reads the node, ``url`` the lines of proxies in
it, ``edit`` changes the node, ``shown`` formats it for people. Errors never repeat the line of a
proxy.
"""
