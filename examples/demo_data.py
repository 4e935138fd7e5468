"""A PyG ``Data`` with masks for the examples: any other would do."""

import torch
from torch_geometric.data import Data

from tuneup.data import demo_graph, split_nodes


def demo_data(seed: int = 0) -> Data:
    """The demo graph (10,000 nodes, 10 classes), 1 % of its nodes for training."""
    graph = demo_graph(seed)
    split = split_nodes(graph.num_nodes, labelled=0.02, new=0.0, y=graph.y)
    data = Data(x=graph.x, y=graph.y, edge_index=graph.adjacency.edge_index)
    for name, nodes in (("train", split.train), ("val", split.validation), ("test", split.test)):
        mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
        mask[nodes] = True
        data[f"{name}_mask"] = mask
    return data
