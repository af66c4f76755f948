"""Connections: permitted addresses, verified servers and connections kept open."""
