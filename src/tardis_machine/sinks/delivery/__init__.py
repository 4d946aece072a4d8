"""Events of one bus on their way: read from logs, sent, settled."""
