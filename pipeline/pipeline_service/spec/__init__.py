"""What the file of a pipeline says: read once, checked as a whole, frozen values."""
