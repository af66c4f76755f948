"""Commands about pipelines; each prints and returns its exit code."""
