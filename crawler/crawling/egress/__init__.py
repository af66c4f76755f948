"""Send pages directly or through a proxy of a pool.

``known_pools`` follows the cluster's table of pools; ``ranking`` orders the proxies of a site;
``local_book`` records their health; ``routes`` chooses. A page for a pool never leaves outside it:
where no proxy is fit, the page is given back and waits.
"""
