"""Pads the vector itself and cuts it with views and clones; gathers into the slices of one vector; walks by cursor."""

from __future__ import annotations

import torch
import torch.distributed as dist


def spans(shapes):
    """Return the name of each tensor with its begin and end."""
    found, at = [], 0
    for name in shapes:
        size = torch.Size(shapes[name]).numel()
        found.append((name, at, at + size))
        at += size
    return found


def shard(tensors, rank, world_size):
    """Return the part of `rank`."""
    flat = torch.cat([tensor.flatten() for tensor in tensors.values()])
    missing = -flat.numel() % world_size
    padded = torch.nn.functional.pad(flat, (0, missing))
    return padded.view(world_size, -1)[rank].clone()


def unshard(shard, shapes, group):
    """Return the whole tensors by name."""
    world_size = dist.get_world_size(group)
    flat = shard.new_zeros(world_size * shard.numel())
    dist.all_gather(list(flat.view(world_size, -1)), shard, group=group)
    whole, at = {}, 0
    for name, shape in shapes.items():
        view = flat.narrow(0, at, torch.Size(shape).numel()).reshape(shape)
        whole[name] = view
        at += view.numel()
    return whole


def pieces(shard, shapes, rank, world_size):
    """Return what this shard has of each tensor."""
    low = rank * shard.numel()
    high = low + shard.numel()
    return {
        name: (max(low - start, 0), shard[max(start - low, 0) : end - low])
        for name, start, end in spans(shapes)
        if start < high and end > low and start < end
    }
