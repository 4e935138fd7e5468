"""Makes ``graph_oracles`` importable, and imports PyG while its own warnings do not count."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

with warnings.catch_warnings():  # PyG itself calls what torch has deprecated
    warnings.simplefilter("ignore")
    import torch_geometric  # noqa: F401


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors of a few hundred numbers: threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
