"""From the bytes of a message to the struct that mappers read."""
