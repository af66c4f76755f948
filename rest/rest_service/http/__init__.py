"""HTTP itself: connections, keys, quotas, envelopes, and what is written down of them."""
