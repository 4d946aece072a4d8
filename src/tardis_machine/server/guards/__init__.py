"""What keeps one client from taking the server from the others."""
