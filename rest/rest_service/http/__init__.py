"""HTTP itself: connections, keys, quotas, envelopes, and the audit log."""
