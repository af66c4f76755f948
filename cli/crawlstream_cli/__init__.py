"""The commands that a person types: a module a verb, which ``app`` lists and loads.

``common`` is what several of them share, ``dev`` has the verbs of those who develop crawlstream.
"""
