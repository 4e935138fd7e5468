"""The rooms of the package: which may import which, and that importing has no side effects."""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import tuneup

PACKAGE = Path(tuneup.__file__).parent

# From top to bottom: a room may import the rooms named beside it and those that they may import.
# Tools import no room.
TABLE = {
    "graph": (),
    "loaders": ("graph",),
    "metrics": ("graph",),
    "data": ("graph",),
    "tables": ("data",),
    "nn": ("graph",),
    "tasks": ("graph", "metrics", "data", "nn"),
    "curriculum": ("tasks",),
    "train": ("curriculum", "tasks"),
    "methods": ("train", "nn", "tasks"),
    "evaluation": ("data", "metrics", "tasks"),
    "serve": ("nn", "tables", "metrics"),
    "server": ("serve",),  # HTTP, a graph that grows, the client
    "report": ("evaluation", "train"),
    "workflow": ("methods", "serve", "server", "report", "tables"),  # all above
    "bench": ("workflow",),  # all above
    "cli": ("bench", "api"),  # all above
    "api": ("methods", "serve", "evaluation"),  # the names that users type
}
TOOLS = {"errors": (), "names": (), "files": ("errors",), "runtime": ("errors",)}


@cache
def known_to(room: str) -> frozenset[str]:
    """Everything that a room may import, itself and the tools included."""
    direct = TABLE[room] if room in TABLE else TOOLS[room]
    tools = TOOLS if room in TABLE else ()
    return frozenset({room, *tools}).union(*map(known_to, direct))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Full names of the parts of tuneup that a file imports, wherever in the file."""
    # A file `a/b.py` and a folder's `a/__init__.py` both count their dots from `tuneup.a`.
    folder = ["tuneup", *path.relative_to(PACKAGE).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "tuneup"}


FILES = sorted(PACKAGE.rglob("*.py"))


def test_imports_are_read_right():
    """The reader itself: absolute, relative, from the package, inside functions."""
    assert "tuneup.graph.Adjacency" in imports_of(PACKAGE / "tasks" / "base.py")
    assert "tuneup.tasks.pseudo_labelling.PseudoLabels" in imports_of(PACKAGE / "tasks" / "base.py")
    assert "tuneup.graph.csr" in imports_of(PACKAGE / "graph" / "adjacency.py")
    assert "tuneup.train.loop.train" in imports_of(PACKAGE / "train" / "__init__.py")
    assert known_to("train") >= {"curriculum", "tasks", "graph", "errors"}
    assert not known_to("tasks") & {"curriculum", "train", "evaluation", "cli"}


def test_every_file_is_in_a_room():
    rooms = {room_of(path) for path in FILES}
    assert rooms <= {*TABLE, *TOOLS, "__init__", "__main__"}
    assert {"graph", "metrics", "data", "nn", "tasks", "curriculum", "train"} <= rooms


def test_imports_point_up_only():
    rooms = {*TABLE, *TOOLS}
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in FILES
        if (room := room_of(path)) in rooms
        for name in imports_of(path)
        # `from tuneup import curriculum` names a room; `from tuneup import __version__` does not.
        if (other := name.split(".")[1]) in rooms and other not in known_to(room)
    ]
    assert not wrong


def test_the_table_itself_points_up_only():
    """Rooms in the order of the table: each only needs those before it."""
    seen = set(TOOLS)
    for room, direct in list(TABLE.items())[:-2]:
        assert set(direct) <= seen
        seen.add(room)


PROBE = """
import json, os, random, signal, sys, threading, warnings
symbols = set()
sys.addaudithook(lambda event, args: symbols.add(str(args[1])) if event == "ctypes.dlsym" else None)
import numpy, polars, torch  # polars sets a variable of the environment

def state():
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": repr(numpy.random.get_state()),
        "random": repr(random.getstate()),
        "warnings": [repr(each) for each in warnings.filters],
        "environ": dict(os.environ),
        "threads": [torch.get_num_threads(), threading.active_count()],
        "dtype": str(torch.get_default_dtype()),
        "grad": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "signals": [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM)],
        "folder": os.getcwd(),
    }

before = state()
import tuneup.api, tuneup.curriculum, tuneup.data, tuneup.evaluation, tuneup.graph, tuneup.metrics
import tuneup.serve, tuneup.nn, tuneup.tables, tuneup.tasks, tuneup.train
loaded = sorted({name.split(".")[0] for name in sys.modules})
after = state()
changed = [key for key in before if before[key] != after[key]]
print(json.dumps({"changed": changed, "loaded": loaded, "symbols": sorted(symbols)}))
"""


@pytest.fixture(scope="module")
def import_report():
    """What a fresh interpreter that keeps its own warnings looks like after the import."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_importing_changes_nothing_and_loads_nothing_slow(import_report):
    """Neither generators, warning filters, threads, signals and environment nor malloc."""
    assert import_report["changed"] == []
    assert "mallopt" not in import_report["symbols"]
    slow = {"matplotlib", "plotly", "torch_geometric", "typer", "rich", "scipy"}
    assert not {*slow, "sklearn", "pandas"} & set(import_report["loaded"])


def test_the_package_alone_loads_nothing_at_all():
    """Not even torch: ``tuneup --help`` and ``tuneup.__version__`` answer at once."""
    probe = "import sys, tuneup; tuneup.__version__, dir(tuneup); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
