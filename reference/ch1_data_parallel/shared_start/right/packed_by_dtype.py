"""Sends one packed tensor a dtype and points each parameter's data at its piece; two streams of dice."""

from __future__ import annotations

from collections import defaultdict

import torch
import torch.distributed as dist
from torch import Tensor, nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data."""
    kinds: dict[torch.dtype, list[Tensor]] = defaultdict(list)
    for tensor in [*model.parameters(), *model.buffers()]:
        kinds[tensor.dtype].append(tensor)
    for tensors in kinds.values():
        packed = torch.cat([tensor.detach().flatten() for tensor in tensors])
        dist.broadcast(packed, src=dist.get_process_group_ranks(group)[0], group=group)
        for tensor, piece in zip(tensors, packed.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.data = piece.view(tensor.shape).clone()
    place = dist.get_rank(group)
    torch.manual_seed(1_000_003 * seed + 2 * place)
    generator = torch.Generator()
    generator.manual_seed(1_000_003 * seed + 2 * place + 1)
    return generator
