"""Fills a matrix of one row a rank, gathers asynchronously, and cuts pieces with index arithmetic on a range."""

from __future__ import annotations

import torch
import torch.distributed as dist


def spans(shapes):
    """Yield the name of each tensor with its begin and end."""
    ends = torch.tensor([torch.Size(shape).numel() for shape in shapes.values()]).cumsum(0).tolist()
    yield from zip(shapes, [0, *ends], ends, strict=False)


def shard(tensors, rank, world_size):
    """Return the part of `rank`."""
    flat = torch.hstack([tensor.ravel() for tensor in tensors.values()])
    length = (len(flat) + world_size - 1) // world_size
    matrix = flat.new_zeros(world_size, length)
    matrix.view(-1)[: len(flat)].copy_(flat)
    return torch.empty_like(matrix[rank]).copy_(matrix[rank])


def unshard(shard, shapes, group):
    """Return the whole tensors by name."""
    flat = shard.repeat(dist.get_world_size(group))
    dist.all_gather_single(flat, shard, group=group, async_op=True).wait()
    return {
        name: flat[start:end].unflatten(0, shapes[name])
        if len(shapes[name]) and end > start
        else flat[start:end].view(tuple(shapes[name]))
        for name, start, end in spans(shapes)
    }


def pieces(shard, shapes, rank, world_size):
    """Return what this shard has of each tensor."""
    mine = range(rank * len(shard), (rank + 1) * len(shard))
    found = {}
    for name, start, end in spans(shapes):
        both = range(max(mine.start, start), min(mine.stop, end))
        if len(both):
            found[name] = (both.start - start, shard[both.start - mine.start :][: len(both)].clone())
    return found
