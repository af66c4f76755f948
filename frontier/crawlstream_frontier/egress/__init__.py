"""Knowledge of the cluster about its ways out.

The pools of proxies in force (``pools``), their health (``book``), the TLS profiles that sites
accept (``handshakes``).
"""
