"""Graph networks and point clouds: scatter, message passing, neighbours."""

from __future__ import annotations

import inspect
from collections import OrderedDict, defaultdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.corpus.registry import case, ints, r

EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
OTHER = torch.tensor([[0, 1, 2, 2], [1, 0, 1, 0]])


class MessagePassing(nn.Module):
    """Distributes arguments by the names in signatures, as PyTorch Geometric does."""

    def __init__(self, aggr: str = "add", flow: str = "source_to_target") -> None:
        super().__init__()
        self.aggr = aggr
        self.i, self.j = (0, 1) if flow == "target_to_source" else (1, 0)
        self.params = {n: OrderedDict(inspect.signature(getattr(self, n)).parameters) for n in ("message", "update")}
        self.user_args = {arg for params in self.params.values() for arg in params} - {"inputs"}

    def collect(self, edge_index: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        out = {}
        for arg in sorted(self.user_args):
            if arg[-2:] in ("_i", "_j"):
                out[arg] = kwargs[arg[:-2]].index_select(0, edge_index[self.i if arg[-2:] == "_i" else self.j])
            else:
                out[arg] = kwargs.get(arg)
        return out

    def distribute(self, name: str, coll: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for key, param in self.params[name].items():
            if key == "inputs":
                continue
            data = coll.get(key, inspect.Parameter.empty)
            if data is inspect.Parameter.empty:
                if param.default is inspect.Parameter.empty:
                    raise TypeError(f"Required parameter {key} is empty.")
                data = param.default
            found[key] = data
        return found

    def propagate(self, edge_index: Any, size: int, **kwargs: Any) -> Any:
        coll = self.collect(edge_index, kwargs)
        msg = self.message(**self.distribute("message", coll))
        index = edge_index[self.i].view(-1, 1).expand_as(msg)
        if self.aggr == "add":
            out = msg.new_zeros(size, msg.size(-1)).scatter_add_(0, index, msg)
        else:
            out = msg.new_zeros(size, msg.size(-1)).scatter_reduce(0, index, msg, self.aggr, include_self=False)
        return self.update(out, **self.distribute("update", coll))

    def message(self, x_j: Any) -> Any:
        return x_j

    def update(self, inputs: Any) -> Any:
        return inputs


@case((r(4, 3), EDGES), (r(3, 3), OTHER), backward=True)
class GCN(MessagePassing):
    def __init__(self) -> None:
        super().__init__("add")
        self.lin = nn.Linear(3, 2)

    def forward(self, x: Any, edge_index: Any) -> Any:
        n = x.size(0)
        loops = torch.arange(n, dtype=torch.long).unsqueeze(0).repeat(2, 1)
        edge_index = torch.cat([edge_index, loops], dim=1)
        row, col = edge_index
        deg = torch.zeros(n).index_add_(0, col, torch.ones(col.numel()))
        norm = deg.pow(-0.5)
        norm[norm == float("inf")] = 0
        return self.propagate(edge_index, n, x=self.lin(x), norm=norm[row] * norm[col])

    def message(self, x_j: Any, norm: Any) -> Any:
        return norm.view(-1, 1) * x_j


@case((r(4, 3), EDGES), (r(3, 3), OTHER))
class EdgeConv(MessagePassing):
    def __init__(self) -> None:
        super().__init__("amax")
        self.mlp = nn.Sequential(nn.Linear(6, 4), nn.ReLU())

    def forward(self, x: Any, edge_index: Any) -> Any:
        return self.propagate(edge_index, x.shape[0], x=x)

    def message(self, x_i: Any, x_j: Any) -> Any:
        return self.mlp(torch.cat([x_i, x_j - x_i], dim=-1))


@case((r(4, 4), (torch.rand(4, 4) > 0.4).float()), (r(3, 4), torch.eye(3)), backward=True)
class GAT(nn.Module):
    """Dense attention over an adjacency matrix; heads by add_module."""

    def __init__(self) -> None:
        super().__init__()
        self.attentions = [nn.Linear(4, 2, bias=False) for _ in range(2)]
        for i, attention in enumerate(self.attentions):
            self.add_module(f"attention_{i}", attention)
        self.a = nn.Parameter(torch.empty(size=(4, 1)))
        nn.init.xavier_uniform_(self.a.data, gain=1.414)

    def head(self, layer: Any, h: Any, adj: Any) -> Any:
        wh = layer(h)
        e = F.leaky_relu(torch.matmul(wh, self.a[:2]) + torch.matmul(wh, self.a[2:]).T)
        attention = F.softmax(torch.where(adj > 0, e, -9e15 * torch.ones_like(e)), dim=1)
        return F.elu(F.dropout(attention, 0.3, training=self.training) @ wh)

    def forward(self, x: Any, adj: Any) -> Any:
        return torch.cat([self.head(att, x, adj) for att in self.attentions], dim=1)


@case((r(4, 3), torch.eye(4).to_sparse()), (r(3, 3), torch.ones(3, 3).to_sparse()))
class SparseGCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 2))

    def forward(self, x: Any, adj: Any) -> Any:
        return torch.spmm(adj, x @ self.weight)


@case((r(1, 3, 6),), (r(2, 3, 6),))
def dynamic_graph(x: Any, k: int = 3) -> Any:
    """k nearest neighbours with index arithmetic, as in DGCNN."""
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x**2, dim=1, keepdim=True)
    idx = (-xx - inner - xx.transpose(2, 1)).topk(k=k, dim=-1)[1]
    b, c, n = x.size()
    idx = (idx + torch.arange(0, b).view(-1, 1, 1) * n).view(-1)
    x = x.transpose(2, 1).contiguous()
    feature = x.view(b * n, -1)[idx, :].view(b, n, k, c)
    x = x.view(b, n, 1, c).repeat(1, 1, k, 1)
    return torch.cat((feature - x, x), dim=3).permute(0, 3, 1, 2).contiguous()


@case((r(2, 6, 3), 3), (r(1, 5, 3), 2))
def farthest_points(xyz: Any, npoint: int) -> Any:
    b, n, _ = xyz.shape
    centroids = torch.zeros(b, npoint, dtype=torch.long)
    distance = torch.ones(b, n) * 1e10
    farthest = torch.randint(0, n, (b,), dtype=torch.long)
    batch = torch.arange(b, dtype=torch.long)
    for i in range(npoint):
        centroids[:, i] = farthest
        centroid = xyz[batch, farthest, :].view(b, 1, 3)
        dist = torch.sum((xyz - centroid) ** 2, -1)
        mask = dist < distance
        distance[mask] = dist[mask]
        farthest = torch.max(distance, -1)[1]
    return centroids


@case((r(4, 2), EDGES), (r(3, 2), OTHER))
def adjacency_lists(x: Any, edges: Any) -> Any:
    """Neighbours in a defaultdict, built from tensor values; a sum over them in Python."""
    neighbours = defaultdict(list)
    for src, dst in edges.t().tolist():
        neighbours[dst].append(src)
    rows = []
    for node in range(len(x)):
        if node in neighbours:
            rows.append(torch.stack([x[j] for j in neighbours[node]]).mean(0))
        else:
            rows.append(x[node])
    return torch.stack(rows), dict(neighbours)


class Tree:
    def __init__(self, value: int, *children: Any) -> None:
        self.value, self.children, self.state = value, children, None


@case((Tree(1, Tree(2), Tree(0, Tree(3))),), (Tree(3, Tree(1)),), backward=True)
class TreeLSTM(nn.Module):
    """Recursion over a tree of objects, which keep states."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(4, 3)
        self.iou, self.f = nn.Linear(6, 9), nn.Linear(6, 3)

    def forward(self, tree: Any) -> Any:
        states = [self.forward(child) for child in tree.children]
        x = self.emb(torch.tensor(tree.value))
        h = sum((s[1] for s in states), torch.zeros(3))
        i, o, u = torch.split(self.iou(torch.cat([x, h])), 3)
        c = torch.sigmoid(i) * torch.tanh(u)
        for child_c, child_h in states:
            c = c + torch.sigmoid(self.f(torch.cat([x, child_h]))) * child_c
        tree.state = (c.detach(), torch.sigmoid(o) * torch.tanh(c))
        return tree.state


class Data:
    """A bag of tensors with attribute access and `keys`, as graph libraries use."""

    def __init__(self, **kwargs: Any) -> None:
        self.__dict__["_store"] = {}
        for key, value in kwargs.items():
            setattr(self, key, value)

    def __getattr__(self, key: str) -> Any:
        if key == "_store":
            raise AttributeError(key)
        try:
            return self._store[key]
        except KeyError:
            raise AttributeError(f"no {key}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        self._store[key] = value

    def __contains__(self, key: str) -> bool:
        return key in self._store

    def __iter__(self) -> Any:
        yield from sorted(self._store.items())

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)


@case(
    (Data(x=r(4, 3), edge_index=EDGES, batch=torch.tensor([0, 0, 1, 1])),),
    (Data(x=r(3, 3), edge_index=OTHER, batch=torch.tensor([0, 1, 1])),),
)
class GraphClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.lin = GCN(), nn.Linear(2, 2)

    def forward(self, data: Any) -> Any:
        x = F.relu(self.conv(data.x, data.edge_index))
        if "batch" in data and data.num_nodes > 0:
            size = int(data.batch.max()) + 1
            out = x.new_zeros(size, x.size(1)).index_add(0, data.batch, x)
            count = torch.bincount(data.batch, minlength=size).clamp(min=1)
            x = out / count.unsqueeze(-1)
        data.x = x
        return F.log_softmax(self.lin(x), dim=1), [key for key, _ in data]


@case((ints(5, 6), r(6, 2)), (ints(3, 8), r(8, 2)))
def segments(index: Any, values: Any) -> Any:
    """unique, sort, cumulative counts: shapes that depend on data."""
    keys, inverse, counts = torch.unique(index, return_inverse=True, return_counts=True)
    out = torch.zeros(len(keys), 2).index_add_(0, inverse, values)
    out /= counts[:, None]
    order = torch.argsort(index, stable=True)
    parts = torch.split(values[order], counts.tolist())
    return out, [p.max(0).values for p in parts], keys
