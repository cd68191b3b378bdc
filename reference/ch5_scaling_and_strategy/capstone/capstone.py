"""Train a small GPT on d x t ranks: d replicas of the model, each split over t ranks, all of your own repaired parts.

The ranks form a grid, and each belongs to two groups of it, which never mean the same thing:

                   tensor ranks        a row is one replica: the same batch, the same loss, other pieces of the weights;
                     0    1            f and g, heads, the vocabulary's loss and the norm belong to it
    data ranks  0    0    1
                1    2    3            a column holds copies of the same pieces and reads other batches;
                                       the start, the average of gradients and the count of tokens belong to it

Rows are neighbours, since they talk in every layer: 8bsh(t - 1)/t bytes forward and backward. Columns talk once a step.

Shoeybi et al., Megatron-LM, arXiv:1909.08053, sections 3 and 5 (figure 8); Narayanan et al., arXiv:2104.04473.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
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
    mean = loss.detach() / data.size()
    dist.all_reduce(mean, group=data)
    return mean


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


def draw(text: Tensor, dice: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return a batch of windows of the text, and what follows each of their tokens: [batch, context] both."""
    begins = torch.randint(len(text) - CONTEXT, (BATCH,), generator=dice, device="cpu").tolist()
    windows = torch.stack([text[begin : begin + CONTEXT + 1] for begin in begins])
    return windows[:, :-1], windows[:, 1:]


def train(options: argparse.Namespace) -> None:
    """Train on all ranks that torchrun started, and show how fast."""
    on_gpu = torch.cuda.is_available()
    device = f"cuda:{os.environ['LOCAL_RANK']}" if on_gpu else "cpu"
    torch.set_default_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    data, tensor = make_groups(options.tensor)
    whole = {name: weight.to(device) for name, weight in initial_weights(0).items()}
    model, dice = start(whole, N_HEADS, 0, data, tensor)
    text = torch.tensor(list(Path(__file__).with_name("text.txt").read_bytes()))
    passages = text[-300:].unfold(0, CONTEXT + 1, CONTEXT)
    mine = torch.arange(len(passages)) % data.size() == data.rank()  # some replicas have one passage more
    size, begun = sum(weight.numel() for weight in whole.values()), time.perf_counter()
    for step in range(1, options.steps + 1):
        loss = train_step(model, draw(text[:-300], dice), data, 0.5, 1.0).item()
        tokens_per_s = step * BATCH * CONTEXT * data.size() / (time.perf_counter() - begun)
        mfu = 6 * size * tokens_per_s / (options.peak_tflops * 1e12 * dist.get_world_size())
        if dist.get_rank() == 0 and sys.stderr.isatty():
            bar = "#" * (30 * step // options.steps)
            share = f", MFU {mfu:.2%}" if options.peak_tflops < float("inf") else ""
            print(f"\r[{bar:30}] loss {loss:.3f}, {tokens_per_s:,.0f} tokens/s{share}", end="", file=sys.stderr)
    unseen = held_out_loss(model, passages[:, :-1], passages[:, 1:].where(mine[:, None], -100), data).item()
    if dist.get_rank() == 0:
        ranks = f"{data.size()} data x {tensor.size()} tensor ranks"
        print(f"loss after {options.steps} steps on {ranks}: {loss:.4f}, held out {unseen:.4f}")
        print(f"loss after 40 steps on 2 data x 1 tensor ranks: {EXPECTED}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="torchrun --nproc-per-node 4 capstone.py")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--tensor", type=int, default=2, help="ranks that share one model; they divide the ranks")
    parser.add_argument("--peak-tflops", type=float, default=float("inf"), help="of one device, to show the MFU")
    if "RANK" in os.environ:
        train(parser.parse_args())
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "4", __file__, *sys.argv[1:]])
