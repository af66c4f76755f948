"""Where files end: a folder of any file system that fsspec writes to, the local one included.

``store``    objects by name: created exclusively, put whole, read, listed, removed
``bodies``   page bodies that are too large for their record, each by its SHA-256

Nothing here is ever half there under its name. An object store has that by itself; locally a file
is written beside, synced, and linked or renamed. Calls block: from asyncio they go to a thread.
"""
