"""Time, memory, growth, reading and serving: measured, and written into benchmarks/README.md.

python -m benchmarks                     # all but products-gat; what is measured is skipped
python -m benchmarks sage serving        # some of them
python -m benchmarks --quick             # on small graphs, printed: the README stays as it is
python -m benchmarks --readme            # write the README from what is measured
python -m benchmarks sage --against HEAD~1   # this tree and another revision in turns, printed
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence

from tuneup.files import write_atomic

from . import costs, disk, growth, products, serving, speed, tables_in, validation
from .harness import RESULTS, ROOT, Benchmark, Record, compare, run, section

BENCHMARKS: dict[str, Benchmark] = {
    each.name: each
    for each in (
        *speed.BENCHMARKS,
        growth.BENCHMARK,
        costs.BENCHMARK,
        tables_in.BENCHMARK,
        disk.BENCHMARK,
        serving.BENCHMARK,
        validation.BENCHMARK,
        products.BENCHMARK,
    )
}
LONG = ("products-gat",)
README = ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- measured:begin -->", "<!-- measured:end -->"


def readme() -> str:
    """The README with every part as it was measured."""
    text = README.read_text()
    head, rest = text.split(BEGIN)
    parts = [section(benchmark) for benchmark in BENCHMARKS.values()]
    return "\n\n".join([f"{head}{BEGIN}", machines(), *parts, f"{END}{rest.split(END)[1]}"])


def machines() -> str:
    """What everything was measured on: one line, unless machines differ."""
    paths = [RESULTS / f"{name}.json" for name in BENCHMARKS]
    found = {
        ", ".join(f"{key} {value}" for key, value in record.machine.items() if key != "tuneup")
        for record in [Record.load(path) for path in paths if path.exists()]
    }
    return "\n".join(f"Machine: {line}." for line in sorted(found))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is named, and write it down."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, help="measurements of each case")
    parser.add_argument("--quick", action="store_true", help="small graphs, one round, printed")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--readme", action="store_true", help="measure nothing")
    parser.add_argument("--against", metavar="REVISION", help="compare time and memory, printed")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        name, case = options.worker
        print(json.dumps(BENCHMARKS[name].measure(json.loads(case))))
        return
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    chosen = options.names or [name for name in BENCHMARKS if name not in LONG]
    if options.against:
        for name in chosen:
            how = {"quick": options.quick, "rounds": options.rounds}
            print(compare(BENCHMARKS[name], options.against, **how))
        return
    for name in [] if options.readme else chosen:
        given = {"quick": options.quick, "fresh": options.fresh, "rounds": options.rounds}
        record = run(BENCHMARKS[name], **given)
        if options.quick:
            print(BENCHMARKS[name].report(record))
    if not options.quick:
        write_atomic(README, readme())
        if (RESULTS / "growth.json").exists():
            growth.draw(Record.load(RESULTS / "growth.json"), growth.PICTURE)


if __name__ == "__main__":
    main()
