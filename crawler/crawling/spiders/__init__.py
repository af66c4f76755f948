"""Spiders: what is made of a page once it is there."""
