"""How many files a process may open."""

import resource

MAX_OPEN_FILES = 65_536
"""Every client needs one or two, every missing destination of a bus three; systems often start with
1,024 and grant more to who asks."""


def raise_file_limit() -> None:
    """Let this process and those it starts open as many files as they may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
