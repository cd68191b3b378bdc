"""Cut a model into equal shards, one a rank, and put it together again."""

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
    """Return the part of the flat vector that `rank` keeps."""
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors.values()])
    return flat.chunk(world_size)[rank]


def unshard(shard: Tensor, shapes: Shapes, group: dist.ProcessGroup) -> dict[str, Tensor]:
    """Gather the shards of the group's ranks and return the whole tensors by name."""
    flat = shard.new_empty(len(shard) * dist.get_world_size(group))
    dist.all_gather_single(flat, shard, group=group)
    return {name: flat[start:end].view(tuple(shapes[name])) for name, start, end in spans(shapes)}


def pieces(shard: Tensor, shapes: Shapes, rank: int, world_size: int) -> dict[str, tuple[int, Tensor]]:
    """Return what this shard has of each tensor: where in it the values begin, and the values."""
    first = rank * len(shard)
    found = {}
    for name, start, end in spans(shapes):
        begin, stop = max(start, first), min(end, first + len(shard))
        if begin < stop:
            found[name] = (begin - start, shard[begin - first : stop - first])
    return found


def example() -> None:
    """Cut ten elements, and five, into four shards."""
    for size, length in ((10, 3), (5, 2)):
        tensors = {"weight": torch.arange(1.0, size), "bias": torch.tensor(0.5)}
        for rank in range(4):
            try:
                part = shard(tensors, rank, 4)
                lies_in = part.untyped_storage().nbytes() // part.element_size()
                got = f"{len(part)} elements, keeps {lies_in:2} alive"
            except IndexError:
                got = "no shard at all           "
            print(f"{size:2} elements, rank {rank} of 4: {got}   expected {length} and {length}")


if __name__ == "__main__":
    example()
