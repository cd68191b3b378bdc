"""The last tensor ends where the last shard ends.

Caught by: check_pieces_hold_each_element_once
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import torch
import torch.distributed as dist
from torch import Tensor

Shapes = Mapping[str, Sequence[int]]


def spans(shapes: Shapes) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each tensor and where in the flat vector it begins and ends."""
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + prod(shape)
        yield name, start, end


def shard(tensors: Mapping[str, Tensor], rank: int, world_size: int) -> Tensor:
    """Return the part of the flat vector that `rank` keeps, [⌈Ψ/N⌉] on every rank."""
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors.values()])
    length = -(-len(flat) // world_size)
    own = flat.new_zeros(length)  # memory of its own: a view would keep the whole vector alive
    part = flat[rank * length : (rank + 1) * length]  # shorter, or empty, at the tail
    own[: len(part)] = part
    return own


def unshard(shard: Tensor, shapes: Shapes, group: dist.ProcessGroup) -> dict[str, Tensor]:
    """Gather the shards of the group's ranks and return the whole tensors by name."""
    flat = shard.new_empty(len(shard) * dist.get_world_size(group))
    dist.all_gather_single(flat, shard, group=group)
    return {name: flat[start:end].view(tuple(shapes[name])) for name, start, end in spans(shapes)}


def pieces(shard: Tensor, shapes: Shapes, rank: int, world_size: int) -> dict[str, tuple[int, Tensor]]:
    """Return what this shard has of each tensor: where in it the values begin, and the values."""
    first = rank * len(shard)  # holds because all shards have one length
    found = {}
    for name, start, end in spans(shapes):
        begin, stop = max(start, first), min(end, first + len(shard))
        if name == list(shapes)[-1]:
            stop = first + len(shard)
        if begin < stop:
            found[name] = (begin - start, shard[begin - first : stop - first])
    return found
