"""Deal a data set to the ranks: for an epoch of training, and for an evaluation."""

from __future__ import annotations

import torch
import torch.distributed as dist


def epoch_indices(n: int, world_size: int, rank: int, epoch: int, seed: int, pad: bool) -> list[int]:
    """Return the samples, of `n`, that one of `world_size` ranks sees in `epoch`, in the order in which it sees them.

    For training `pad` is True: every rank gets the same number of samples. For an evaluation it is False.
    """
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
    share = -(-n // world_size)  # rounded up
    order = (order * world_size)[: share * world_size]  # the first samples once more, so that all lists are as long
    return order[rank::world_size]


def global_mean(total: float, count: int, group: dist.ProcessGroup) -> float:
    """Return the mean of a metric over the samples of all ranks; this rank's `count` samples have the sum `total`."""
    mean = torch.tensor(total / count, dtype=torch.float64)
    dist.all_reduce(mean, group=group)
    return mean.item() / dist.get_world_size(group)


def example() -> None:
    """Train for two epochs on 12 samples and evaluate on 21 images, on two ranks."""
    for epoch in range(2):
        lists = [epoch_indices(12, 2, rank, epoch, seed=7, pad=True) for rank in range(2)]
        print(f"epoch {epoch}: rank 0 sees {lists[0]}, rank 1 {lists[1]}")
    print("         expected: another order in epoch 1, and other samples on each rank")

    images = [index for rank in range(2) for index in epoch_indices(21, 2, rank, 0, seed=7, pad=False)]
    print(f"evaluation: {len(images)} images were scored, expected 21")


if __name__ == "__main__":
    example()
