"""Knowledge of the cluster about its ways out.

The pools of proxies in force (``proxy_pools``), their health (``proxy_book``), order
(``proxy_ranking``) and state (``proxy_states``); purses (``purse``, ``purses``) and how they are
shown (``purse_report``); the TLS profiles that sites accept (``handshakes``).
"""
