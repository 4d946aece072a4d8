"""Live messages on disk, as slices that replays read."""
