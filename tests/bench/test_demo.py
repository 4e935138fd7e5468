"""The demo's pieces: both methods from one run, and files that come all together or not at all."""

import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest

from tuneup.bench.demo import run_demo, write_demo
from tuneup.curriculum import Schedule
from tuneup.data import block_graph

BRIEF = Schedule(epochs=3, lr=0.01)


@pytest.fixture(scope="module")
def demo():
    graph = block_graph(600, 1800, 3, 8, seed=1)
    return run_demo(graph, pretrain=BRIEF, finetune=BRIEF)


def test_base_and_tuneup_come_from_one_run(demo):
    assert list(demo.base) == ["transductive", "inductive", "cold-30", "cold-60", "cold-90"]
    assert demo.base.keys() == demo.tuneup.keys()
    assert len(demo.result.states) == 2
    metrics = demo.metrics()
    assert metrics["scores"]["base"]["inductive"]["overall"]["count"] == 30
    assert metrics["training"]["stages"][1]["pseudo_labels"] > 0


def test_the_files_say_which_node_got_which_label(demo, tmp_path):
    files = write_demo(demo, tmp_path, lambda path: path.write_text("a figure"))
    names = {path.name for path in files}
    assert names == {path.name for path in tmp_path.iterdir()}
    kept = pl.read_parquet(tmp_path / "pseudo-labels.parquet")
    labels = demo.result.pseudo_labels[1]
    assert kept["node"].to_list() == demo.task.graph.global_ids[labels.nodes].tolist()
    assert kept["label"].to_list() == labels.y.tolist()
    assert set(kept["stage"]) == {2}
    assert kept["confidence"].is_between(0, 1).all()


def test_a_failing_figure_leaves_nothing(demo, tmp_path):
    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("cannot draw")

    with pytest.raises(OSError, match="cannot draw"):
        write_demo(demo, tmp_path, fail)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_and_says_so(tmp_path):
    """Files may grow to 8 kB here, as on a disk that fills up while the figure is written."""
    script = textwrap.dedent("""
        import resource, sys
        from pathlib import Path
        from tuneup.bench.demo import run_demo, write_demo
        from tuneup.curriculum import Schedule
        from tuneup.data import block_graph
        from tuneup.errors import OutputError
        from tuneup.report import degree_figure
        brief = Schedule(epochs=1)
        demo = run_demo(block_graph(600, 1800, 3, 8), pretrain=brief, finetune=brief)
        curves = {"Base": list(demo.base.values())}
        degree_figure(curves, "warm.png")
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        try:
            write_demo(demo, Path("out"), lambda path: degree_figure(curves, path))
        except OutputError as error:
            print(error)
            sys.exit(1)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("cannot write ")
    assert list((tmp_path / "out").iterdir()) == []
