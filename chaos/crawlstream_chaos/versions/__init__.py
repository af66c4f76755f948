"""Two versions in one cluster: the version before is built, and processes change between both."""
