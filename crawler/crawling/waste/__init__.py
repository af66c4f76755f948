"""Evidence for the waste guard: votes of pages on their way into the sketches of sites."""
