"""What several commands share: asking the cluster, showing the answer, warnings."""
