"""Links of a page: found, filtered, and packed for the frontier."""
