"""Servers that pipelines write to, to be killed and frozen."""
