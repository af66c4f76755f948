"""The kinds of request: each a schema and a handler. ``docs/plugins.md`` tells how one is added."""
