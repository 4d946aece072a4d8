"""What a bus is, for those who send to it and those who read it."""
