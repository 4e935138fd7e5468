"""Everything behind the measured tables of README.md: what ``make bench`` runs.

python -m benchmarks.run                    # all of it; what is already measured is skipped
python -m benchmarks.run speed tables       # some of it
python -m benchmarks.run --quick            # speed on small graphs, printed: README untouched
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from tuneup.cli import app

from . import demo_graphs, growth, real_tables, speed, tables
from .records import QUICK_RESULTS

STEPS = ("speed", "growth", "accuracy", "tables")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the steps named on the command line, in their order."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description="Run what the tables of benchmarks/README.md are made from, but for gowalla "
        "(python -m benchmarks.gowalla), and rewrite them. What is recorded is not run again.",
    )
    parser.add_argument("steps", nargs="*", metavar="step", help=f"{', '.join(STEPS)}; all if none")
    parser.add_argument("--quick", action="store_true", help="small graphs, one round, printed")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    options = parser.parse_args(arguments)
    unknown = set(options.steps) - set(STEPS)
    if unknown:
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    steps = options.steps or STEPS
    if "accuracy" in steps and not options.quick and "TUNEUP_DATA" not in os.environ:
        parser.error(
            "the accuracy step reads real graphs: set TUNEUP_DATA to their folder, or name the "
            "other steps: speed growth tables"
        )
    flags = ["--quick"] * options.quick + ["--fresh"] * options.fresh
    if "speed" in steps:
        speed.main(flags)
    if "growth" in steps:
        growth.main(flags)
    if "accuracy" in steps and not options.quick:
        fresh = ["--fresh"] * options.fresh
        for task in ("node-classification", "link-prediction"):
            app(["bench", "run", "--task", task, *fresh], standalone_mode=False)
        demo_graphs.main(fresh)
    if "tables" in steps:
        tables.main(["--results", str(QUICK_RESULTS)] if options.quick else [])
        if not options.quick:
            real_tables.main([])


if __name__ == "__main__":
    main()
