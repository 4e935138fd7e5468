"""The small task of link prediction that its tests share, and its edges as Python sees them."""

from dataclasses import replace

from tests.tasks.edge_toys import EDGES, GRAPH, edge_set
from tuneup.tasks import LinkPrediction

POSITION = {node: k for k, node in enumerate(EDGES.known.tolist())}


def small_task(data=GRAPH, split=EDGES, **options):
    task = LinkPrediction.from_split(data, split)
    return replace(task, metric="recall@5", **options)


def local(edges):
    """Edges of known nodes, in the numbers of the training graph."""
    return {frozenset(POSITION[node] for node in edge) for edge in edge_set(edges)}


TRAIN, VALIDATION = local(EDGES.train), local(EDGES.validation)
