"""Storage of files: a folder of any file system that fsspec supports, including the local one.

``store``    named objects: created exclusively, put whole, read, listed, removed
``bodies``   page bodies that are too large for their record, each named by its SHA-256

An object never exists in part under its name. An object store guarantees that; locally a file is
written under another name, synced, and linked or renamed. Calls block: from asyncio, run them in a
thread.
"""
