"""The system clock, the default where no other clock is given."""

import time


def system_clock() -> int:
    """Return now in microseconds since 1970 UTC."""
    return time.time_ns() // 1000
