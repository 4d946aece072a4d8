"""The chunk log: what was accepted, on disk, with a position for every bus."""
