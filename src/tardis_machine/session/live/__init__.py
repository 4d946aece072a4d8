"""Live streams for clients and for the publisher."""
