"""Average gradients while backward still computes: in buckets that travel as soon as they are full."""

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
        """Note that this parameter's gradient is complete, and send its bucket off if it was the last one missing."""
        number = self.number_of[parameter]
        self.missing[number] -= 1
        if self.missing[number] == 0:
            self._launch(self.buckets[number])

    def _launch(self, bucket: list[nn.Parameter]) -> None:
        """Average a bucket over the ranks without waiting for them."""
        flat = torch.cat([parameter.grad.flatten() for parameter in bucket])
        work = dist.all_reduce(flat, group=self.group, async_op=True)
        flat /= dist.get_world_size(self.group)
        self.in_flight.append((bucket, flat, work))

    def finish(self) -> None:
        """Put the averages into the parameters' gradients; after that the optimizer may step."""
        for bucket, flat, work in self.in_flight:
            work.wait()
            pieces = flat.split([parameter.numel() for parameter in bucket])
            for parameter, piece in zip(bucket, pieces, strict=True):
                parameter.grad = piece.view_as(parameter)
        self._begin()


class _SlowSum:
    """Stand for an all-reduce of two equal ranks on a slow network: the sum is there when somebody waits for it."""

    def __init__(self, tensor: Tensor, group: object, async_op: bool) -> None:
        self.tensor, self.sum = tensor, tensor + tensor

    def wait(self) -> None:
        self.tensor.copy_(self.sum)


def example() -> None:
    """Average a gradient of 1.0, which both of two ranks have, on a network in slow motion."""
    dist.all_reduce, dist.get_world_size = _SlowSum, lambda group: 2
    weight = nn.Parameter(torch.ones(1))
    buckets = GradientBuckets([weight], 1024, None)
    weight.register_post_accumulate_grad_hook(buckets.ready)
    weight.sum().backward()
    buckets.finish()
    print(f"average of 1.0 and 1.0 over two ranks: {weight.grad.item()}, expected 1.0")


if __name__ == "__main__":
    example()
