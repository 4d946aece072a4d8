"""Delta tables on disk: read, append, merge, and the statistics in their logs."""
