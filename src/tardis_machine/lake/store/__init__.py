"""The tables on disk: read, append, merge, and what their logs say."""
