"""Features, each in a module of its own; ``interplay.pairs`` finds them."""
