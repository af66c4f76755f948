"""What this process has leased, how much it may lease, and what it owes the frontier."""
