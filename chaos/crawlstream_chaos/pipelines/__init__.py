"""Chaos with pipelines: two of them store what a cluster crawls, and are struck as it is.

``described``  their file, and how their processes find a store that fails on purpose
``objects``    that store: away, full, or mute when a fault says so
``reading``    what is in it (``facts.stored``), read from the disk; it asks nobody
"""
