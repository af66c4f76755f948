"""Parts that every process needs at its start: settings, logs, clients, signals, health."""
