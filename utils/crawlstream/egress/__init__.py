"""The proxy pools on their way from a person's hand to the crawlers.

They live in one node of ZooKeeper, beside the throttle rules, and are watched, read and edited like
those (:mod:`crawlstream.zoo`): ``parse`` reads the node, ``url`` the lines that people write of
proxies, ``edit`` changes the node, ``shown`` is what people are shown of it. No error of theirs
repeats what a proxy's line says.
"""
