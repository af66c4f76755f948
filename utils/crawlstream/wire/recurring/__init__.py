"""Records of recurring crawls that a memory of pages feeds."""
