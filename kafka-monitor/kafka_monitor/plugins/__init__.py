"""The kinds of request: each a schema and a handler. ``door`` tells how one is added."""
