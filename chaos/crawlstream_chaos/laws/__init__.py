"""Laws of a cluster under faults: functions of facts alone."""
