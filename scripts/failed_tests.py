"""Print the tests that failed in the last run; fail where there are none, or too many."""

import argparse
import json
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache", "v", "cache", "lastfailed")


def main(arguments: list[str] | None = None) -> None:
    """Read what pytest remembers below the current directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=20, help="exit with 1 when more failed")
    most = parser.parse_args(arguments).most
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    print("\n".join(failed))
    if not failed:
        sys.exit("the tests did not come to an end: no failed test is on record")
    if len(failed) > most:
        sys.exit(f"{len(failed)} tests failed; at most {most} are run once more")


if __name__ == "__main__":
    main()
