"""The measured tables and the picture of README.md, made from the JSON files and nothing else.

python -m benchmarks.tables                     # rewrite those of benchmarks/README.md
python -m benchmarks.tables --results FOLDER    # print the tables of another folder instead
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tuneup.files import write_atomic

from . import growth, sections
from .records import RESULTS, ROOT, Record

README = ROOT / "benchmarks" / "README.md"

Section = tuple[str, Callable[[Record], str]]
SPEED: Mapping[str, Section] = {
    "sage": ("SAGE, stage 1", sections.compared),
    "gcn": ("GCN, stage 1", sections.compared),
    "gat": ("GAT, memory", sections.attention),
    "stage2": ("SAGE, stage 2", sections.second_stage),
    "recommendation": ("Recommendation, GCN", sections.recommendation),
    "ranking": ("Exact ranking, top 50", sections.ranking),
}
GROWTH: Mapping[str, Section] = {"growth": ("SAGE, growing graphs", growth.growing)}


def render(parts: Mapping[str, Section], results: Path) -> str:
    """The sections of all parts; one that was not measured says so."""
    records = {
        part: Record.load(results / f"{part}.json")
        for part in parts
        if (results / f"{part}.json").exists()
    }
    blocks = [machines(list(records.values()))] if records else []
    for part, (title, body) in parts.items():
        if part in records:
            text = section(records[part], body)
        else:
            command = f"benchmarks.speed {part}" if part in SPEED else "benchmarks.growth"
            text = sections.unmeasured(command, "benchmarks.tables")
        blocks.append(f"### {title}\n\n{text}")
    return sections.join(*blocks)


def section(record: Record, body: Callable[[Record], str]) -> str:
    """One part's text, once all of it was measured."""
    if record.measured < record.planned:
        done = f"{record.measured} of {record.planned} measurements"
        return f"Unfinished, {done}: run `{record.command}` again to go on."
    return sections.join(provenance(record), body(record))


def machines(records: Sequence[Record]) -> str:
    """What everything was measured on: one line, unless machines differ."""
    found = {
        ", ".join(f"{key} {value}" for key, value in record.machine.items() if key != "tuneup")
        for record in records
    }
    return "\n".join(f"Machine: {line}." for line in sorted(found))


def provenance(record: Record) -> str:
    """The command, the graph, the number of rounds, and how quiet the machine was."""
    sizes = sorted({(case.nodes, case.edges) for case in record.rounds})
    graphs = "; ".join(f"{nodes:,} nodes and {edges:,} edges" for nodes, edges in sizes)
    counts = {len(found) for found in record.rounds.values()}
    rounds = " to ".join(map(str, sorted(counts))) + (" round" if counts == {1} else " rounds")
    others = max(found.others for of in record.rounds.values() for found in of.values())
    revision = record.machine.get("tuneup")
    code = f" at revision {revision}" if revision else ""
    return (
        f"`{record.command}`{code}: {graphs}. Median (smallest-largest) over {rounds}; other "
        f"processes took at most {others:.0%} of the machine's processor time."
    )


def replace_between(text: str, name: str, content: str) -> str:
    """``text`` with new content between ``<!-- name:begin -->`` and ``<!-- name:end -->``."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"README.md needs {begin} and {end}, each exactly once.")
    head, rest = text.split(begin)
    return f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}"


def update_readme(results: Path = RESULTS) -> None:
    """Rewrite what lies between the markers, and draw the picture anew."""
    text = README.read_text()
    text = replace_between(text, "speed", render(SPEED, results))
    text = replace_between(text, "growth", render(GROWTH, results))
    write_atomic(README, text)
    draw_growth(results, growth.PICTURE)


def draw_growth(results: Path, picture: Path) -> None:
    """Draw the growth, if it was measured."""
    path = results / "growth.json"
    if path.exists():
        growth.draw(Record.load(path), picture)


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the README, or print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tables",
        description="Rewrite the tables of time, memory and growth in benchmarks/README.md from "
        "benchmarks/results/speed. Nothing is measured. The other tables: benchmarks.real_tables.",
    )
    parser.add_argument("--results", type=Path, help="print the tables of this folder instead")
    results: Path | None = parser.parse_args(arguments).results
    if results is None:
        update_readme()
    else:
        print(sections.join(render(SPEED, results), render(GROWTH, results)))
        draw_growth(results, results / growth.PICTURE.name)


if __name__ == "__main__":
    main()
