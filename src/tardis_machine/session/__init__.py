"""One client request or one job: from what was asked to a stream of chunks."""
