"""The Bronze envelope: records to bytes and back, their identity, keys and destinations."""
