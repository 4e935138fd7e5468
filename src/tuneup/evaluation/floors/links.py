"""Floors of link prediction, from the input graph alone.

With ``k_v`` the degree of node v and A the adjacency of the setting's input graph, a candidate c of
source s has the score::

    degree                 k_c
    common neighbours      sum over u of A_su A_uc
    paths of length three  sum over u, v of A_su A_uv A_vc / sqrt(k_u k_v)

Equals are ranked by degree, then by id.  The last is L3 of Kovacs et al. (2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuneup.graph import Adjacency, Rows

from .base import ByNeighbours, Floor, Question, Ranker, by_count, descending, matrix_of

if TYPE_CHECKING:
    from scipy import sparse

    from tuneup.evaluation.settings import LinkSetting


def link_floors(settings: Sequence[LinkSetting]) -> list[Floor]:
    """Degree, common neighbours and paths of length three, scored in every setting."""
    floors = (
        ("degree", "degree", by_degree),
        ("common-neighbours", "common neighbours", by_common_neighbours),
        ("paths-of-three", "paths of length three", by_paths_of_three),
    )
    return [
        Floor(
            name,
            title,
            {each.name: _question(each).score(make(each.data.adjacency)) for each in settings},
        )
        for name, title, make in floors
    ]


def by_degree(graph: Adjacency) -> Ranker:
    """The nodes with most neighbours first."""
    return by_count(graph.degree)


def by_common_neighbours(graph: Adjacency) -> Ranker:
    """The nodes that share most neighbours with the source first."""
    order = descending(graph.degree)
    return ByNeighbours([_matrix(graph)[:, order.numpy()]], order)


def by_paths_of_three(graph: Adjacency) -> Ranker:
    """The nodes at the end of most paths of length three first, hubs on the way counting less."""
    matrix, order = _matrix(graph), descending(graph.degree)
    damped = graph.degree.clamp(min=1).double().rsqrt().cpu().numpy()
    between = matrix.multiply(damped[:, None]).multiply(damped).tocsr()
    return ByNeighbours([between, matrix[:, order.numpy()]], order)


def _matrix(graph: Adjacency) -> sparse.csr_matrix:
    return matrix_of(Rows(graph.rowptr.cpu(), graph.col.cpu()), graph.num_nodes)


def _question(setting: LinkSetting) -> Question:
    graph = setting.data.adjacency
    return Question(
        setting.name,
        setting.metric,
        setting.ids,
        graph.neighbours.take(setting.sources),
        setting.known.append(setting.sources),
        setting.targets,
        graph.num_nodes,
    )
