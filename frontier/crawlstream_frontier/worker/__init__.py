"""The frontier as one worker calls it: leases, settled pages and their links."""
