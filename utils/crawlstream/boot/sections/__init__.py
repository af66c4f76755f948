"""The startup settings by section; :class:`crawlstream.boot.settings.Settings` is all of them.

A section is a class: its docstring is its heading in docs/settings.md, what stands below a field is
the explanation of it. What follows from settings of a section is a property of it.
"""
