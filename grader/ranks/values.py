"""Turn torch's values into records on their way out of a rank, and records into torch's values on their way in."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from grader.records import Group, Opaque, Tensor

if TYPE_CHECKING:
    import torch


def convert(value: object) -> object:
    """Return a record for a torch value, a tuple for a `torch.Size`, and anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None:
        return value
    if isinstance(value, torch.Tensor):
        return describe(value)
    if isinstance(value, torch.Size):
        return tuple(value)
    return value


def describe(tensor: torch.Tensor) -> Tensor | Opaque:
    """Return a dense tensor of any device or view as a `Tensor` record; other layouts have no data form."""
    import torch

    kind = type(tensor)
    subclass = "" if kind in (torch.Tensor, torch.nn.Parameter) else kind.__name__
    with torch._C.DisableTorchFunctionSubclass():  # a subclass must not answer for its values
        dtype = str(tensor.dtype).removeprefix("torch.")
        if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
            return Opaque(f"{dtype} tensor on meta" if tensor.is_meta else f"{dtype} tensor of layout {tensor.layout}")
        plain = torch.Tensor.as_subclass(torch.Tensor.detach(tensor), torch.Tensor)
        plain = plain.cpu().contiguous().resolve_conj().resolve_neg()
        if dtype == "bfloat16":
            plain = plain.float()
        try:
            array = plain.numpy()
        except TypeError:  # a dtype that numpy lacks
            return Opaque(f"tensor of dtype {dtype}")
    return Tensor(array, dtype, bool(tensor.requires_grad), subclass)


def revive(record: object) -> object:
    """Return the torch tensor that a `Tensor` record describes; groups stay records until they can be created."""
    if not isinstance(record, Tensor):
        return record
    import torch

    tensor = torch.from_numpy(np.array(record.array))
    if record.dtype == "bfloat16":
        tensor = tensor.to(torch.bfloat16)
    return tensor.requires_grad_(record.requires_grad and (tensor.is_floating_point() or tensor.is_complex()))


class Groups:
    """Create the process groups that the arguments of a call name, on every rank in the same order."""

    def __init__(self) -> None:
        """Begin with the world alone."""
        self._made: dict[tuple[int, ...], Any] = {}

    def create(self, every: list[list[int]]) -> None:
        """Create the subgroups in `every` that do not exist yet."""
        for ranks in map(tuple, every):
            if ranks not in self._made:
                import torch.distributed as dist  # only where it is needed: a numpy exercise does without torch

                self._made[ranks] = dist.new_group(list(ranks))

    def fill(self, value: Any) -> Any:
        """Return `value` with each `Group` record in lists, tuples and dictionaries replaced by its process group."""
        if isinstance(value, Group):
            return self._find(value)
        if type(value) in (list, tuple):
            return type(value)(map(self.fill, value))
        if type(value) is dict:
            return {key: self.fill(item) for key, item in value.items()}
        return value

    def _find(self, group: Group) -> Any:
        import torch.distributed as dist

        return dist.group.WORLD if group.ranks is None else self._made[group.ranks]
