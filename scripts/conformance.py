"""Run the conformance sections that have a rate in tests/conformance/rates.toml."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHOWN_FAILURES = "3"
RATES = ROOT / "tests" / "conformance" / "rates.toml"


def main() -> None:
    """Run each section and fail when one is below its rate."""
    runner = sys.argv[1]
    failed = []
    for group, rates in tomllib.loads(RATES.read_text()).items():
        exchanges = rates.pop("exchanges", [])
        for section, rate in rates.items():
            if not keeps_rate(runner, section, rate, exchanges):
                failed.append(f"{group}.{section}")
    if failed:
        sys.exit(f"below the rate of {RATES.relative_to(ROOT)}: {', '.join(failed)}")


def keeps_rate(runner: str, section: str, rate: float, exchanges: list[str]) -> bool:
    """Say whether a section passes at least `rate` per cent of its cases."""
    options = ["--only", section, "--min-pass", str(rate), "--failures", SHOWN_FAILURES]
    options += [word for exchange in exchanges for word in ("--exchange", exchange)]
    command = [sys.executable, runner, *options]
    print(f"conformance {section}, at least {rate} %", flush=True)
    return subprocess.run(command, cwd=ROOT).returncode == 0


if __name__ == "__main__":
    main()
