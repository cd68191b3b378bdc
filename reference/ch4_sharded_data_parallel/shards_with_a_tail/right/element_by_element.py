"""Copies tensor by tensor into the shard, so that the flat vector is never built."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist


def spans(shapes):
    """Yield the name of each tensor with its begin and end."""
    at = 0
    for name, shape in shapes.items():
        yield name, at, at + math.prod(shape)
        at += math.prod(shape)


def shard(tensors, rank, world_size):
    """Return the part of `rank`."""
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    length = math.ceil(sum(math.prod(shape) for shape in shapes.values()) / world_size)
    own = torch.zeros(length, dtype=next(iter(tensors.values())).dtype)
    for name, (start, values) in pieces(own, shapes, rank, world_size).items():
        values.copy_(tensors[name].reshape(-1)[start : start + len(values)])
    return own


def unshard(shard, shapes, group):
    """Return the whole tensors by name."""
    flat = torch.empty(dist.get_world_size(group), len(shard), dtype=shard.dtype)
    dist.all_gather_single(flat, shard, group=group)
    sizes = [math.prod(shape) for shape in shapes.values()]
    parts = flat.view(-1)[: sum(sizes)].split(sizes)
    return {name: part.view(torch.Size(shape)) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}


def pieces(shard, shapes, rank, world_size):
    """Return what this shard has of each tensor."""
    owner = {}
    for name, start, end in spans(shapes):
        for element in range(start, end):
            place = element - rank * len(shard)
            if 0 <= place < len(shard):
                first = owner.setdefault(name, [element - start, place, place])
                first[2] = place
    return {name: (start, shard[first : last + 1]) for name, (start, first, last) in owner.items()}
