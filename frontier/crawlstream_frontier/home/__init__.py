"""What one partition does for the others: runs at home there, and links that it reads."""
