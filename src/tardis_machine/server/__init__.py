"""HTTP and WebSocket, nothing else: requests in, chunks out."""
