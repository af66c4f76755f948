"""Rules of crawls that apply to links: which hosts and types they have, and their priority."""
