"""Kinds of request, each a schema and a handler; ``docs/plugins.md`` explains how to add one."""
