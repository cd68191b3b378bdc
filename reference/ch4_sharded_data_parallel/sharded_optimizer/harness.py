"""Train with a submission of sharded_optimizer, and meter what it keeps alive."""

from __future__ import annotations

import gc
import weakref
from types import ModuleType
from typing import Any

import torch
import torch._dynamo  # optimizers import it at their first step; once, before ranks are forked, is cheaper
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

Steps = list[list[Tensor | None]]


class Meter(TorchDispatchMode):
    """Count the elements of all storages that operations create while it is on, from creation to release."""

    def __init__(self, known: list[Tensor]) -> None:
        """Begin with nothing counted; `known` tensors are not."""
        super().__init__()
        self.elements: dict[int, int] = {}  # of each live storage
        self.now = self.peak = 0
        self.known = {tensor.untyped_storage()._cdata for tensor in known}

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


def model(values: list[Tensor]) -> list[nn.Parameter]:
    """Return parameters with copies of these values."""
    return [nn.Parameter(value.clone()) for value in values]


def trained(
    submission: ModuleType, values: list[Tensor], steps: Steps, options: dict[str, float], group: dist.ProcessGroup
) -> list[Tensor]:
    """Return the parameters after a step with each list of gradients."""
    parameters = model(values)
    optimizer = submission.ShardedAdamW(iter(parameters), group, **options)
    for gradients in steps:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
    return [parameter.detach() for parameter in parameters]


def metered(submission: ModuleType, values: list[Tensor], steps: Steps, group: dist.ProcessGroup) -> list[int]:
    """Return the elements held after the steps, and the most that were held, beside parameters and gradients."""
    parameters = model(values)
    gradients = [gradient for step in steps for gradient in step if gradient is not None]
    with Meter([*parameters, *gradients]) as meter:
        optimizer = submission.ShardedAdamW(parameters, group, lr=0.01, weight_decay=0.1)
        for step in steps:
            for parameter, gradient in zip(parameters, step, strict=True):
                parameter.grad = gradient
            optimizer.step()
    gc.collect()
    return [meter.now, meter.peak]


def moments_held(submission: ModuleType, world_size: float) -> float:
    """Return how many elements the optimizer holds on this rank, without counters of steps."""
    values = [torch.ones(10, 10) for _ in range(8)]
    held, _ = metered(submission, values, [[torch.ones(10, 10) for _ in values]], dist.group.WORLD)
    assert dist.get_world_size() == world_size
    return float(held // 100 * 100)
