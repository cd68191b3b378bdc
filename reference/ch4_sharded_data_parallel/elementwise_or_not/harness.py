"""Give a submission of elementwise_or_not optimizers to judge and shards to step, and meter its matrix products."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Step = Callable[[Tensor, Tensor], None]


class Meter(TorchDispatchMode):
    """Count the work of matrix products, and the elements of all storages that operations create and keep."""

    def __init__(self, known: list[Tensor]) -> None:
        """Begin with nothing counted; `known` tensors are not."""
        super().__init__()
        self.elements: dict[int, int] = {}  # of each live storage
        self.now = self.peak = self.products = 0
        self.known = {tensor.untyped_storage()._cdata for tensor in known}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the default imports torch.compile at the first operation, in every rank, for seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count what it does and returns."""
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in {"mm", "bmm", "addmm", "baddbmm"}:
            self.products += result.numel() * args[-1].shape[-2]
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


# ---- optimizers to judge: each function returns a step with new state


def stepping(update: Callable[[Tensor, Tensor], Tensor]) -> Step:
    """Return a step by 0.1 times an update of weight and gradient."""

    def step(w: Tensor, g: Tensor) -> None:
        w.sub_(0.1 * update(w, g))

    return step


def sgd() -> Step:
    """Return plain SGD."""
    return stepping(lambda w, g: g)


def decayed_sgd() -> Step:
    """Return SGD that adds weight decay to the gradient, in place."""
    return stepping(lambda w, g: g.add_(0.1 * w))


def momentum() -> Step:
    """Return SGD with momentum."""
    moments: list[Tensor] = []

    def step(w: Tensor, g: Tensor) -> None:
        moments[:] = [0.9 * moments[0] + g if moments else g.clone()]
        w.sub_(0.1 * moments[0])

    return step


def adam() -> Step:
    """Return Adam."""
    state: dict[str, Any] = {"t": 0, "m": 0.0, "v": 0.0}

    def step(w: Tensor, g: Tensor) -> None:
        state["t"] += 1
        state["m"], state["v"] = 0.9 * state["m"] + 0.1 * g, 0.99 * state["v"] + 0.01 * g * g
        m, v = state["m"] / (1 - 0.9 ** state["t"]), state["v"] / (1 - 0.99 ** state["t"])
        w.sub_(0.1 * m / (v.sqrt() + 1e-8))

    return step


def sign() -> Step:
    """Return a step by the gradient's signs, as in Lion."""
    return stepping(lambda w, g: g.sign())


def clamped() -> Step:
    """Return SGD whose gradient is clipped element by element."""
    return stepping(lambda w, g: g.clamp(-0.5, 0.5))


def lars() -> Step:
    """Return LARS without momentum."""
    return stepping(lambda w, g: w.norm() / (g.norm() + 1e-9) * g)


def centered() -> Step:
    """Return SGD that subtracts the gradient's mean, as gradient centralization does."""
    return stepping(lambda w, g: g - g.mean())


def factored() -> Step:
    """Return a step by the root of row and column means, as in Adafactor."""

    def update(_: Tensor, g: Tensor) -> Tensor:
        squares = g * g + 1e-30
        return g / (squares.mean(1, keepdim=True) * squares.mean(0, keepdim=True) / squares.mean()).sqrt()

    return stepping(update)


def clipped() -> Step:
    """Return SGD whose gradient is clipped to the norm 20."""
    return stepping(lambda w, g: g * min(1.0, 20.0 / (float(g.norm()) + 1e-9)))


def normalized_rows() -> Step:
    """Return a step in which each row of the gradient has length 1."""
    return stepping(lambda w, g: g / (g.norm(dim=1, keepdim=True) + 1e-9))


def late() -> Step:
    """Return SGD that divides by the norm of the gradient before."""
    norms: list[float] = [1.0]

    def step(w: Tensor, g: Tensor) -> None:
        w.sub_(0.1 * g / norms[-1])
        norms.append(float(g.norm()) + 1e-9)

    return step


def judged(submission: ModuleType, name: str) -> bool:
    """Return what is_elementwise says of the optimizer `name`."""
    return submission.is_elementwise(globals()[name])


# ---- shards to step


def cut(whole: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return this rank's rows of a matrix, zeros behind the end."""
    length = -(-len(whole) // group.size())
    shard = whole.new_zeros(length, whole.shape[1])
    own = whole[length * group.rank() :][:length]
    shard[: len(own)] = own
    return shard


def stepped(
    submission: ModuleType, rule: str, tensors: list[tuple[Tensor, list[Tensor]]], group: dist.ProcessGroup
) -> list[tuple[Tensor, Tensor]]:
    """Step this rank's shards of whole tensors, given with their gradients; return the shards of weight and moment."""
    weights = [cut(whole, group) for whole, _ in tensors]
    moments = [torch.zeros_like(weight) for weight in weights]
    for whole in zip(*(gradients for _, gradients in tensors), strict=True):
        gradients = [cut(gradient, group) for gradient in whole]
        if rule == "lars":
            submission.lars_step(weights, gradients, moments, group, 0.5, momentum=0.8, decay=0.1, trust=0.3)
        else:
            rows = [len(whole) for whole, _ in tensors]
            submission.muon_step(weights, gradients, moments, rows, group, 0.5, momentum=0.8)
    return list(zip(weights, moments, strict=True))


def metered(submission: ModuleType, rows: list[int], width: int, group: dist.ProcessGroup) -> list[int]:
    """Return the multiplications of one step of Muon on this rank, and the most elements beside its shards."""
    length = [-(-height // group.size()) for height in rows]
    shards = [[torch.rand(n, width, dtype=torch.float64) for n in length] for _ in range(3)]
    with Meter([tensor for kind in shards for tensor in kind]) as meter:
        submission.muon_step(*shards, rows, group, 0.1)
    return [meter.products, meter.peak]


def change_by_lars(submission: ModuleType, world_size: float) -> float:
    """Return by how much LARS changes a weight of a matrix of ones, cut among all ranks."""
    assert dist.get_world_size() == world_size
    weight = torch.ones(16 // dist.get_world_size(), 16, dtype=torch.float64)
    moment = torch.zeros_like(weight)
    submission.lars_step([weight], [torch.ones_like(weight)], [moment], dist.group.WORLD, 1.0, decay=0.0, trust=0.01)
    return 1 - float(weight[0, 0])
