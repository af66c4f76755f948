"""How pages leave: directly, or through a proxy of a pool.

``known_pools`` follows the table of pools that the cluster goes by; ``ranking`` says which proxies
a site is asked through; ``book`` knows which of them are well; ``routes`` chooses. No page that is
for a pool ever leaves past it: where no proxy will do, it is given back and waits.
"""
