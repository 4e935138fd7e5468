"""TuneUp in a loop of Lightning Fabric: precision and devices are its business, edges are ours.

    python examples/fabric_tuneup.py                  one process
    fabric run --devices 2 examples/fabric_tuneup.py  two, each with edges dropped by its own seed

This script, one process: test accuracy 0.877, tail 0.808 (nodes with 0-5 edges)
"""

import os

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch_geometric.nn import GraphSAGE
from torch_geometric.utils import degree

from tuneup import DropEdge, pseudo_labels
from tuneup.data import demo_data

devices = int(os.environ.get("LT_DEVICES", 1))  # as `fabric run` says
fabric = Fabric(devices=devices, precision="bf16-mixed")
fabric.seed_everything(0, verbose=False)
data = fabric.to_device(demo_data())
model = GraphSAGE(data.num_features, 64, num_layers=3, out_channels=10, dropout=0.5)
model, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters(), lr=0.005))
y, mask = data.y.clone(), data.train_mask.clone()


def train(epochs: int, drop: DropEdge) -> None:
    model.train()
    for epoch in range(epochs):
        optimizer.zero_grad()
        out = model(data.x, drop(data.edge_index, step=epoch))
        fabric.backward(F.cross_entropy(out[mask], y[mask]))
        optimizer.step()
    model.eval()


train(epochs=60, drop=DropEdge(alpha=0.0))
known = data.train_mask | data.val_mask
with torch.no_grad():
    labels = pseudo_labels(model(data.x, data.edge_index), data.edge_index, known)
y[labels.nodes], mask[labels.nodes] = labels.y, True
train(epochs=30, drop=DropEdge(alpha=0.5, seed=fabric.global_rank))

correct = (model(data.x, data.edge_index).argmax(1) == data.y).float()
tail = data.test_mask & (degree(data.edge_index[1], data.num_nodes) <= 5)
fabric.print(f"test accuracy {correct[data.test_mask].mean():.3f}, tail {correct[tail].mean():.3f}")
