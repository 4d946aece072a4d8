"""What is said about a bus: counts, state, log lines."""
