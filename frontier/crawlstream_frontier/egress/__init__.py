"""What the cluster knows of its ways out.

The pools of proxies in force (``pools``), how they do (``book``), the TLS profiles that sites take
(``handshakes``).
"""
