"""A PyG model over learned embeddings in its own loop, with as many epochs in total as its pair.

This script: test recall@50 0.104, tail 0.085 (users with 0-2 items)
plain_items_tuneup.py: test recall@50 0.112, tail 0.089
"""

import torch
import torch.nn.functional as F
from torch_geometric.nn import GCN
from torch_geometric.utils import degree, to_undirected

from tuneup.data import demo_interactions, split_interactions

split = split_interactions(demo_interactions())
users, items = split.train.num_users, split.train.num_items
user, item = split.train.user, split.train.item + users
edge_index = to_undirected(torch.stack([user, item]))
torch.manual_seed(0)
x = torch.nn.Parameter(0.1 * torch.randn(users + items, 64))
model = GCN(64, 64, num_layers=2)
optimizer = torch.optim.Adam([x, *model.parameters()], lr=0.01)


def train(epochs: int) -> None:
    model.train()
    for _ in range(epochs):
        optimizer.zero_grad()
        z = model(x, edge_index)
        other = users + torch.randint(items, user.shape)
        margin = (z[user] * (z[other] - z[item])).sum(1)
        (F.softplus(margin).mean() + 0.1 * z.square().sum(1).mean()).backward()
        optimizer.step()
    model.eval()


train(epochs=150)

with torch.no_grad():
    scores = model(x, edge_index).split([users, items])
known, wanted = (
    torch.zeros(users, items).index_put_((part.user, part.item), torch.tensor(1.0))
    for part in (split.train, split.test)
)
best = (scores[0] @ scores[1].t() - 1e9 * known).topk(50).indices
asked = wanted.sum(1) > 0
recall = wanted.gather(1, best).sum(1)[asked] / wanted.sum(1)[asked]
tail = degree(user, users)[asked] <= 2
print(f"test recall@50 {recall.mean():.3f}, tail {recall[tail].mean():.3f}")
