"""There is one group of ranks: all.

Caught by: check_every_bucket_is_waited_for
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


class GradientBuckets:
    """Average the gradients of some parameters over the ranks of `group`, a bucket at a time.

    In each step `ready` is called for each parameter whose gradient has been computed, then `finish` once.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], cap_bytes: int, group: dist.ProcessGroup) -> None:
        """Pack the parameters, the last ones first, into buckets of at most `cap_bytes`."""
        self.group = group
        self.buckets: list[list[nn.Parameter]] = []
        size_bytes = 0
        for parameter in reversed(list(parameters)):
            more_bytes = parameter.numel() * parameter.element_size()
            if not self.buckets or size_bytes + more_bytes > cap_bytes:
                self.buckets.append([])
                size_bytes = 0
            self.buckets[-1].append(parameter)
            size_bytes += more_bytes
        self.number_of = {parameter: number for number, bucket in enumerate(self.buckets) for parameter in bucket}
        self._begin()

    def _begin(self) -> None:
        """Forget the last step."""
        self.missing = [len(bucket) for bucket in self.buckets]
        self.in_flight: list[tuple[list[nn.Parameter], Tensor, dist.Work]] = []

    def ready(self, parameter: nn.Parameter) -> None:
        """Note that this parameter's gradient is complete, and send off every bucket whose turn has come."""
        self.missing[self.number_of[parameter]] -= 1
        while len(self.in_flight) < len(self.buckets) and self.missing[len(self.in_flight)] == 0:
            self._launch()

    def _launch(self) -> None:
        """Sum the next bucket over the ranks without waiting for them."""
        bucket = self.buckets[len(self.in_flight)]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        self.in_flight.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    def finish(self) -> None:
        """Put the averages into the parameters' gradients; after that the optimizer may step."""
        while len(self.in_flight) < len(self.buckets):
            self._launch()
        for bucket, flat, work in self.in_flight:
            work.wait()
            flat /= dist.get_world_size()
            pieces = flat.split([parameter.numel() for parameter in bucket])
            for parameter, piece in zip(bucket, pieces, strict=True):
                parameter.grad = piece.view_as(parameter)
        self._begin()
