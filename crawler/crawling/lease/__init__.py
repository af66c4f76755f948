"""Leases of this process, their limits, and pending reports to the frontier."""
