"""What every process does at its start: settings, logs, clients, signals, health."""
