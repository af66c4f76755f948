"""Records of what is fed again and again, by a memory of pages."""
