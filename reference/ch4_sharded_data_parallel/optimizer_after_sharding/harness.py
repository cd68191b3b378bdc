"""Train a small model with a submission of optimizer_after_sharding, and meter what its optimizer holds."""

from __future__ import annotations

import gc
import weakref
from types import ModuleType

import torch
import torch._dynamo  # the first optimizer imports it, for seconds; once, before ranks are forked, is cheaper
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.tensor
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import AdamW, Optimizer

Groups = list[tuple[list[str], dict[str, float]]]  # names of parameters, and their group's options


class Block(nn.Module):
    """Compute tanh(x Wᵀ + b)."""

    def __init__(self, width: int) -> None:
        """Build W and b."""
        super().__init__()
        self.linear = nn.Linear(width, width, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """Return y."""
        return torch.tanh(self.linear(x))


class Model(nn.Module):
    """Embed tokens, apply two blocks and project back onto the vocabulary; a tied head is the embedding."""

    def __init__(self, vocabulary: int, width: int, tied: bool) -> None:
        """Build the parts."""
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, dtype=torch.float64)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, vocabulary, bias=False, dtype=torch.float64)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def build(values: dict[str, Tensor], groups: Groups, device: str) -> tuple[Model, dict[str, nn.Parameter], Optimizer]:
    """Return a model on `device`, what else is trained, and an optimizer of both; without a head the model is tied."""
    with torch.device(device):
        model = Model(*values["embedding.weight"].shape, tied="head.weight" not in values)
    known = dict([*model.named_parameters()])
    others = {name: nn.Parameter(value) for name, value in values.items() if name not in known}
    groups_of_adamw = [{"params": [(known | others)[name] for name in names], **options} for names, options in groups]
    return model, others, AdamW(groups_of_adamw, **groups[0][1])


def fill(model: Model, values: dict[str, Tensor]) -> None:
    """Give all parameters their values, each rank its part."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            whole = values[name if name in values else "embedding.weight"]
            if isinstance(parameter, DTensor):
                whole = distribute_tensor(whole, parameter.device_mesh, parameter.placements)
            parameter.copy_(whole)


def train(model: Model, others: dict[str, nn.Parameter], optimizer: Optimizer, batches: list[Tensor]) -> None:
    """Take a step with each batch; what is no parameter of the model has the gradient 1."""
    for tokens in batches:
        optimizer.zero_grad()
        for other in others.values():
            other.grad = torch.ones_like(other)
        (model(tokens).square().sum() / (2 * len(tokens))).backward()
        optimizer.step()


def trained(
    submission: ModuleType,
    own: list[Tensor],
    values: dict[str, Tensor],
    groups: Groups,
    before: list[Tensor],
    device: str,
) -> dict[str, Tensor]:
    """Return all parameters, whole, after steps before sharding, equal on all ranks, and steps with `own` after it."""
    model, others, optimizer = build(values, groups, device)
    if device == "cpu":
        fill(model, values)
    train(model, others, optimizer, before)
    submission.shard(model, optimizer, init_device_mesh("cpu", (dist.get_world_size(),)))
    if device == "meta":
        model.to_empty(device="cpu")
        fill(model, values)
    train(model, others, optimizer, own)
    found = dict([*model.named_parameters(), *others.items()])
    return {name: (p.full_tensor() if isinstance(p, DTensor) else p).detach() for name, p in found.items()}


def held(submission: ModuleType, rows: int, width: int) -> tuple[int, int, int]:
    """Return the elements that the optimizer keeps in memory, and how many ghosts there are of how many.

    The model has been trained before; ghosts are the whole parameters and moments from before sharding.
    """
    gc.freeze()  # so that collecting below looks at new objects only
    values = {name: torch.ones(rows, width, dtype=torch.float64) for name in ("embedding.weight", "head.weight")}
    model, others, optimizer = build(values, [(list(values), {"lr": 0.1})], "cpu")
    optimizer.add_param_group({"params": list(model.blocks.parameters()), "lr": 0.2})
    train(model, others, optimizer, [torch.arange(4)])
    whole = [*model.parameters(), *(value for state in optimizer.state.values() for value in state.values())]
    ghosts = [weakref.ref(tensor) for tensor in whole if tensor.dim()]
    del whole
    submission.shard(model, optimizer, init_device_mesh("cpu", (dist.get_world_size(),)))
    gc.collect()
    alive = sum(ghost() is not None for ghost in ghosts)
    train(model, others, optimizer, [torch.arange(4)])
    return elements(optimizer), alive, len(ghosts)


def elements(optimizer: Optimizer) -> int:
    """Return how many elements the parameters and moments of an optimizer keep in memory."""
    tensors = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    tensors += [value for state in optimizer.state.values() for value in state.values() if value.dim()]
    local = [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in local}
    return sum(storages.values()) // 8


class _Rows(nn.Module):
    """Multiply by one matrix."""

    def __init__(self) -> None:
        """Build it."""
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(16, 64, bias=False, dtype=torch.float64)])

    def forward(self, x: Tensor) -> Tensor:
        """Return y."""
        return self.blocks[0](x)


def elements_of_the_optimizer(submission: ModuleType, world_size: float) -> float:
    """Return the elements that the optimizer holds after one step."""
    assert dist.get_world_size() == world_size
    model = _Rows()
    optimizer = AdamW(model.parameters())
    submission.shard(model, optimizer, init_device_mesh("cpu", (dist.get_world_size(),)))
    model(torch.ones(1, 16, dtype=torch.float64)).sum().backward()
    optimizer.step()
    return float(elements(optimizer))
