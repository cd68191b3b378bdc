"""The loss of a step is that of the own replica.

Caught by: check_a_step_has_the_gradients_of_one_process
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

# Each of the parts lies in the folder of its exercise.
sys.path += [str(folder) for folder in Path(__file__).resolve().parents[2].glob("ch*_*/*")]

from conjugate_operators import copy_to_group, reduce_from_group
from cut_heads import shard_qkv
from mean_gradients import sync_gradients
from one_global_norm import clip_grad_norm
from shared_start import setup
from split_vocabulary_loss import cross_entropy
from token_weighted_loss import token_loss

Group = dist.ProcessGroup
VOCABULARY, D_MODEL, N_HEADS, N_LAYERS, CONTEXT, BATCH = 128, 32, 4, 2, 32, 8
EXPECTED = "2.6725"  # after 40 steps, whatever the number of tensor ranks: so it is with --tensor 1 on two ranks


def make_groups(tensor_size: int) -> tuple[Group, Group]:
    """Return this rank's data group and its tensor group, whose `tensor_size` ranks are neighbours."""
    grid = torch.arange(dist.get_world_size(), device="cpu").view(-1, tensor_size)
    tensor_groups = [dist.new_group(row.tolist()) for row in grid]  # every rank makes every group, in the same order
    data_groups = [dist.new_group(column.tolist()) for column in grid.T]
    replica, place = divmod(dist.get_rank(), tensor_size)
    return data_groups[place], tensor_groups[replica]


class GPT(nn.Module):
    """A decoder of which this rank holds some heads, hidden units and columns of the vocabulary, and all norms."""

    def __init__(self, whole: dict[str, Tensor], n_heads: int, tensor: Group) -> None:
        """Cut this rank's pieces out of the `whole` weights, [outputs, inputs] each."""
        super().__init__()
        self.n_heads, self.tensor = n_heads, tensor
        self.pieces = nn.ParameterDict({name: self._piece(name, weight) for name, weight in whole.items()})
        self.layers = sum(name.startswith("qkv") for name in whole)

    def _piece(self, name: str, weight: Tensor) -> nn.Parameter:
        rank, size = self.tensor.rank(), self.tensor.size()
        kind = name.partition("_")[0]
        if kind == "qkv":
            weight = shard_qkv(weight, self.n_heads, self.n_heads, rank, size)
        elif kind in {"out", "down", "up", "head"}:  # the first two by their inputs, the others by their outputs
            weight = weight.chunk(size, dim=int(kind in {"out", "down"}))[rank]
        piece = nn.Parameter(weight.clone(memory_format=torch.contiguous_format))
        piece.sharded = kind in {"qkv", "out", "down", "up", "head"}
        return piece

    def forward(self, tokens: Tensor) -> Tensor:
        """Return this rank's columns of the logits, [batch, tokens, vocabulary / t], for `tokens` [batch, tokens]."""
        w = self.pieces
        x = w["embedding"][tokens] + w["place"][: tokens.shape[1]]  # [batch, tokens, d_model], the same on every rank
        for layer in range(self.layers):
            entering = copy_to_group(functional.layer_norm(x, [x.shape[2]], w[f"norm1_{layer}"]), self.tensor)
            heads = attend(entering @ w[f"qkv_{layer}"].T, self.n_heads // self.tensor.size())
            x = x + reduce_from_group(heads @ w[f"out_{layer}"].T, self.tensor)
            entering = copy_to_group(functional.layer_norm(x, [x.shape[2]], w[f"norm2_{layer}"]), self.tensor)
            hidden = functional.gelu(entering @ w[f"up_{layer}"].T)  # [batch, tokens, 4 d_model / t]
            x = x + reduce_from_group(hidden @ w[f"down_{layer}"].T, self.tensor)
        return copy_to_group(functional.layer_norm(x, [x.shape[2]], w["norm"]), self.tensor) @ w["head"].T


def attend(qkv: Tensor, n_heads: int) -> Tensor:
    """Return causal attention of [batch, tokens, 3 * n_heads * head_dim]: [batch, tokens, n_heads * head_dim]."""
    q, k, v = (part.unflatten(2, (n_heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=2))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def start(whole: dict[str, Tensor], n_heads: int, seed: int, data: Group, tensor: Group) -> tuple[GPT, torch.Generator]:
    """Return this rank's part of the model as all replicas start with it, and the generator that draws its batches."""
    model = GPT(whole, n_heads, tensor)
    return model, setup(model, seed, data)


def train_step(model: GPT, batch: tuple[Tensor, Tensor], data: Group, rate: float, max_norm: float) -> Tensor:
    """Take one step of SGD on every rank's (inputs, labels), and return the loss of all batches."""
    inputs, labels = batch
    model.zero_grad()
    loss = cross_entropy(model(inputs).flatten(0, 1), labels.flatten(), model.tensor)
    loss.backward()
    sync_gradients(model, data)
    clip_grad_norm(model.parameters(), max_norm, model.tensor)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= rate * parameter.grad
    return loss.detach()


@torch.no_grad()
def held_out_loss(model: GPT, inputs: Tensor, labels: Tensor, data: Group) -> Tensor:
    """Return the mean loss of all tokens of all ranks' passages; a label of -100 is no token."""
    columns = model(inputs)
    shards = [torch.empty_like(columns) for _ in range(model.tensor.size())]
    dist.all_gather(shards, columns, group=model.tensor)
    return token_loss(torch.cat(shards, dim=2), labels, data)[1]


def initial_weights(seed: int) -> dict[str, Tensor]:
    """Return the weights of the whole model, in float64."""
    shapes = {"embedding": (VOCABULARY, D_MODEL), "place": (CONTEXT, D_MODEL)}
    for layer in range(N_LAYERS):
        shapes |= {f"norm1_{layer}": (D_MODEL,), f"qkv_{layer}": (3 * D_MODEL, D_MODEL), f"out_{layer}": (D_MODEL,) * 2}
        shapes |= {f"norm2_{layer}": (D_MODEL,), f"up_{layer}": (4 * D_MODEL, D_MODEL)}
        shapes |= {f"down_{layer}": (D_MODEL, 4 * D_MODEL)}
    shapes |= {"norm": (D_MODEL,), "head": (VOCABULARY, D_MODEL)}
    dice = torch.Generator("cpu").manual_seed(seed)
    drawn = {name: torch.randn(s, generator=dice, dtype=torch.float64, device="cpu") / 8 for name, s in shapes.items()}
    return {name: (1 + 0 * value if name.startswith("norm") else value) for name, value in drawn.items()}
