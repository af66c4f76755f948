"""What a person asks of pipelines; each command prints and answers its exit code."""
