"""REST calls that complete a feed: book snapshots, polled values, and their limits."""
