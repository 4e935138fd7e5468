"""Modules that are not tuneup's own: how they are built again, and how far they look.

A description names the class and never holds code: a class is imported only from a package that the
caller allows by name.

A new node is answered on the part of the graph that its outputs depend on. Nothing in a module's
code says which part that is, so it is measured on small generated graphs, on which the module is
run twice: on the whole graph, and on all that lies within a number of edges around a few nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any, get_type_hints

import torch
from torch import Tensor, nn

from tuneup.errors import ArtefactError, InputError
from tuneup.graph import Adjacency, Neighbours, adjacency_from, receptive_field
from tuneup.nn.model import call_module


@dataclass(frozen=True)
class ModuleSpec:
    """The description of a module that is not tuneup's own; its code is not saved.

    Args:
        path: of its class, or of a function that makes it, as ``package.module:Class``.
        out_channels: width of its outputs.
        arguments: what that is called with; ``None`` if unknown.
        depth: how many layers of messages it has at least, if the user said so.
    """

    path: str
    out_channels: int
    arguments: dict[str, Any] | None = None
    depth: int | None = None

    def build(self, allow: Sequence[str]) -> nn.Module:
        """A fresh module, if its class is in a package that the caller allows by name.

        Raises:
            ArtefactError: If it is not, or cannot be imported or built.
        """
        if isinstance(allow, str):
            raise InputError(f"allow: got the text {allow!r}; expected names, as in ({allow!r},).")
        source, _, name = self.path.partition(":")
        if not _is_within(source, allow):
            package = source.partition(".")[0]
            raise ArtefactError(
                f"its module is a {self.path!r}, whose code is imported only if you allow it: pass "
                "the module itself, Predictor.load(folder, model=...), or allow its package, "
                f"Predictor.load(folder, allow=({package!r},))"
            )
        if self.arguments is None:
            raise ArtefactError(
                f"it does not say how its {self.path!r} is built: pass the module, "
                "Predictor.load(folder, model=...), or save it with its arguments, "
                "predictor.save(folder, arguments={...})"
            )
        try:
            maker: Any = import_module(source)
            for part in name.split("."):
                maker = getattr(maker, part)
        except Exception as error:  # a package may raise anything when it is imported
            problem = first_line(error)
            raise ArtefactError(f"its {self.path!r} cannot be imported: {problem}") from error
        if not _makes_modules(maker) or not _is_within(maker.__module__, allow):
            raise ArtefactError(f"{self.path!r} is not a torch module from an allowed package")
        try:
            with torch.random.fork_rng(devices=[]):
                module: nn.Module = maker(**self.arguments)
        except Exception as error:
            raise ArtefactError(
                f"{self.path!r} cannot be built with the arguments it was saved with "
                f"({first_line(error)}): pass the module, Predictor.load(folder, model=...)"
            ) from error
        if not isinstance(module, nn.Module):
            raise ArtefactError(f"{self.path!r} made a {type(module).__name__}, not a torch module")
        return module


def path_of(maker: Any) -> str:
    """The import path of a class or a function."""
    return f"{maker.__module__}:{maker.__qualname__}"


def factory_path(factory: Any) -> str:
    """The import path of what makes a module; refuses what could not be imported or allowed."""
    path = path_of(factory) if hasattr(factory, "__qualname__") else ""
    named = all(part.isidentifier() for part in path.partition(":")[2].split("."))
    if not named or not _makes_modules(factory):
        raise InputError(
            f"factory: got {factory!r}; expected a function that can be imported by its name and "
            "is annotated to return a torch module."
        )
    return path


def _makes_modules(maker: Any) -> bool:
    """Whether it is a class of modules, or a function that says that it returns one."""
    if not isinstance(maker, type):
        try:
            maker = get_type_hints(maker).get("return")
        except Exception:  # no function, or one whose annotations name what is not there
            return False
    return isinstance(maker, type) and issubclass(maker, nn.Module)


def first_line(error: BaseException) -> str:
    """What an error says, or its kind if it says nothing."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _is_within(module: str, packages: Sequence[str]) -> bool:
    """Whether a module is one of some packages or inside of one, and is not a program."""
    named = all(part.isidentifier() and part != "__main__" for part in module.split("."))
    return named and any(f"{module}.".startswith(f"{package}.") for package in packages)


MOST_HOPS = 16
"""What depends on nodes further away than this is taken to depend on the whole graph."""

_TRIES = 3
_RUNGS, _SIDE = 2 * MOST_HOPS + 7, 3
"""The graphs are ladders of so many rungs, with so many nodes on each."""


def cut_out(
    source: Neighbours,
    seeds: Tensor,
    hops: int,
    weights: Callable[[Tensor], Tensor | None] = lambda nodes: None,
    budget: int | None = None,
) -> tuple[Tensor, Adjacency] | None:
    """All nodes within ``hops`` edges of ``seeds``, the seeds first, and the graph between them.

    Nodes at the rim have no entries of their own. ``None`` if the field is above a budget of bytes.

    Args:
        source: where neighbours are read from.
        seeds: distinct nodes.
        hops: 1 or more.
        weights: of the entries of some nodes, if there are any.
        budget: bytes that the field's entries may take.
    """
    field = receptive_field(source, seeds, hops, budget)
    if len(field.blocks) < hops:
        return None
    block, count = field.blocks[0], field.nodes.numel()
    rim = block.rowptr[-1:].expand(count - block.num_rows)
    weight = weights(field.nodes[: block.num_rows])
    rowptr = torch.cat([block.rowptr, rim])
    return field.nodes, Adjacency(rowptr, block.col, count, undirected=False, weight=weight)


def measured_hops(module: nn.Module, width: int, graph: Adjacency) -> int:
    """The least distance within which everything lies that an output depends on.

    It is exact for modules whose outputs change, at least slightly, with all that their layers
    read. Of others, whose units are dead on random inputs, state the depth.

    Args:
        module: called as ``module(x, edge_index)``, with ``edge_weight`` if the graph has weights.
        width: of its inputs.
        graph: like the probes in being directed or not, weighted or not.

    Raises:
        InputError: If an output depends on the whole graph, so that no part gives the same.
    """
    name = type(module).__name__
    try:
        probes = [_Probe(module, width, graph, seed) for seed in range(_TRIES)]
        if not all(probe.repeats() for probe in probes):
            why = "draws random numbers when it answers"
        else:
            for hops in range(1, MOST_HOPS + 1):
                if all(probe.is_exact(hops) for probe in probes):
                    return hops
            why = probes[0].reason()
    except (RuntimeError, ValueError, LookupError, TypeError, AssertionError) as error:
        why = f"fails on a graph of another size ({first_line(error)})"
    raise InputError(
        f"{name} cannot answer for new nodes exactly: it {why}. Put the nodes into the data, and "
        "make the Predictor again."
    )


class _Probe:
    """A module beside one generated graph, in double precision if the module can be so.

    Directed edges lead up the ladder: what lies around a node never has the nodes that it sends to.
    """

    def __init__(self, module: nn.Module, width: int, graph: Adjacency, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        count = _RUNGS * _SIDE
        pairs = torch.combinations(torch.arange(count))
        near = (pairs[:, 1] // _SIDE - pairs[:, 0] // _SIDE) <= 1
        rails = pairs[:, 1] - pairs[:, 0] == _SIDE
        edges = pairs[rails | (near & (torch.rand(len(pairs), generator=generator) < 0.5))].t()
        weight = 0.5 + torch.rand(edges.shape[1], generator=generator)
        given = None if graph.weight is None else weight
        self.graph = adjacency_from(edges, count, undirected=graph.undirected, weight=given)
        self.seeds = torch.arange(_SIDE) + _SIDE * (_RUNGS // 2)
        x = torch.randn(count, width, generator=generator)
        try:
            self.module, self.x, self.close = deepcopy(module).double(), x.double(), 1e-9
            self.whole = self.run(self.x, self.graph)
        except (RuntimeError, TypeError):
            self.module, self.x, self.close = module, x, 1e-5
            self.whole = self.run(x, self.graph)

    def run(self, x: Tensor, graph: Adjacency, seed: int = 0) -> Tensor:
        """Outputs of all nodes."""
        device = next((each.device for each in self.module.parameters()), torch.device("cpu"))
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return call_module(self.module, x.to(device), graph.to(device)).cpu()

    def repeats(self) -> bool:
        """Whether another pass gives the same outputs."""
        return self._same(self.run(self.x, self.graph, seed=1), self.whole)

    def is_exact(self, hops: int) -> bool:
        """Whether nodes have the same outputs on the part of the graph around them."""
        for seeds in (self.seeds, self.seeds[:1]):
            found = cut_out(self.graph.neighbours, seeds, hops, self._weights)
            assert found is not None  # nothing limits it
            out = self.run(self.x[found[0]], found[1])[: len(seeds)]
            if not self._same(out, self.whole[seeds]):
                return False
        return True

    def reason(self) -> str:
        """Why no part of the graph gives the same outputs as the whole."""
        x, seeds = self.x.clone(), self.seeds
        x[:_SIDE] *= 3
        if not self._same(self.run(x, self.graph)[seeds], self.whole[seeds]):
            return (
                f"depends on nodes more than {MOST_HOPS} edges away, as global attention and norms "
                "over the graph do"
            )
        end, count = self.graph.rowptr[-1:], len(x)
        longer = torch.cat([self.graph.rowptr, end.expand(count)])
        weight = self.graph.weight
        twice = Adjacency(longer, self.graph.col, 2 * count, undirected=False, weight=weight)
        if not self._same(self.run(torch.cat([x, x]), twice)[seeds], self.whole[seeds]):
            return "depends on the number of nodes, as GraphSizeNorm does"
        return "depends on the order of nodes or edges, or on edges that lead away from a node"

    def _weights(self, nodes: Tensor) -> Tensor | None:
        if self.graph.weight is None:
            return None
        entries = self.graph.neighbours.take(nodes).entries
        assert entries is not None
        return self.graph.weight[entries]

    def _same(self, a: Tensor, b: Tensor) -> bool:
        return bool(((a - b).abs() <= self.close * b.abs().clamp(min=1)).all())
