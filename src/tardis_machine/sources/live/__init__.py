"""Live feeds: one engine that does what the feeds of `exchanges` describe; it knows no venue."""
