"""The layout of a recorded line: its time, a blank, the message as the venue sent it."""

LOCAL_DIGITS = 26
"""How much of a line's timestamp reaches the output: the seventh digit is cut."""

MESSAGE_START = 29
"""Where the message starts, after 28 characters of time and a blank."""
