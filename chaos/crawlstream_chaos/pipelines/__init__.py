"""Chaos with pipelines: two of them store what a cluster crawls, and are struck as it is.

``described``  their file, and how their processes find a store that fails on purpose
``objects``    that store: away, full, or mute when a fault says so
``faults``     what is done to processes and stores
``stored``     values: what is in a store; ``reading`` reads it from the disk, and asks nobody
``laws``       what must hold of it, beside the topics
"""
