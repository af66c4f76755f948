"""The pictures of the documentation, taken of a cluster that runs; see ``__main__``."""
