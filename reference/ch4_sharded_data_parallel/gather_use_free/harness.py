"""Give a submission of gather_use_free layers to train, and meter what it keeps alive."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Meter(TorchDispatchMode):
    """Count the elements of all storages that operations create while it is on, from creation to release."""

    def __init__(self, known: list[Tensor]) -> None:
        """Begin with nothing counted; `known` tensors are not."""
        super().__init__()
        self.elements: dict[int, int] = {}  # of each live storage
        self.now = self.peak = 0
        self.known = {tensor.untyped_storage()._cdata for tensor in known}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the default imports torch.compile at the first operation, in every rank, for seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count what it returns."""
        result = func(*args, **(kwargs or {}))
        for part in result if isinstance(result, (list, tuple)) else [result]:
            if isinstance(part, Tensor) and part.is_floating_point():
                self.count(part)
        return result

    def count(self, tensor: Tensor) -> None:
        """Count a tensor's storage, unless it is known or counted already."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.known or key in self.elements:
            return
        self.elements[key] = storage.nbytes() // tensor.element_size()
        self.now += self.elements[key]
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.release, key)

    def release(self, key: int) -> None:
        """Stop counting a storage that is gone."""
        self.now -= self.elements.pop(key)


class Layer:
    """Compute tanh(x W) with a flat weight, and keep nothing."""

    def __init__(self, rows: int, columns: int) -> None:
        """Take the shape of W."""
        self.shape, self.size = (rows, columns), rows * columns

    def forward(self, weight: Tensor, x: Tensor) -> Tensor:
        """Return y."""
        return torch.tanh(x @ weight.view(self.shape))

    def backward(self, weight: Tensor, x: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
        """Return dx and the gradient of the flat weight."""
        dz = dy * (1 - self.forward(weight, x) ** 2)
        return dz @ weight.view(self.shape).T, (x.T @ dz).view(-1)


def trained(
    submission: ModuleType, batches: list[Tensor], widths: list[int], weights: list[Tensor], group: dist.ProcessGroup
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the outputs of all steps, one a batch, and the shards after the last; the loss is half of y squared."""
    units = [Layer(*shape) for shape in pairwise(widths)]
    model = submission.ShardedModel(units, weights, group)
    outputs = [model.step(batch, torch.clone, 0.1) for batch in batches]
    return outputs, list(model.shards)


def metered(submission: ModuleType, units: int, width: int, group: dist.ProcessGroup, steps: int) -> tuple[int, int]:
    """Return the elements kept between steps, and the most that were alive in one; equal units, one sample a batch."""
    layers = [Layer(width, width) for _ in range(units)]
    batch = torch.full((1, width), 0.1)
    with Meter([batch]) as meter:
        model = submission.ShardedModel(layers, [torch.full((width * width,), 0.1) for _ in layers], group)
        gc.collect()
        meter.peak = meter.now
        for _ in range(steps):
            model.step(batch, torch.clone, 0.1)
        gc.collect()
    return meter.now, meter.peak


def peak_percent(submission: ModuleType, world_size: float) -> float:
    """Return the peak of a step in per cent of a model of ten units."""
    assert dist.get_world_size() == world_size
    return 100 * metered(submission, 10, 64, dist.group.WORLD, 1)[1] / (10 * 64 * 64)
