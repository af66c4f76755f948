"""Knowledge of the cluster about its ways out.

The pools of proxies in force (``proxy_pools``), their health (``proxy_book``) and state
(``proxy_states``), the TLS profiles that sites accept (``handshakes``).
"""
