"""Deal with a submission of epoch_shuffle as the ranks would, each with random state of its own."""

from __future__ import annotations

import random
from types import ModuleType

import numpy as np
import torch


def dealt(
    submission: ModuleType, n: int, world_size: int, epoch: int, seed: int, pad: bool, state: int = 0
) -> list[list[int]]:
    """Return the lists of all ranks; `state` stands for whatever each has drawn at random before."""
    lists = []
    for rank in range(world_size):
        random.seed(1000 * state + rank)
        np.random.seed(1000 * state + rank)
        torch.default_generator.manual_seed(1000 * state + rank)
        lists.append([int(index) for index in submission.epoch_indices(n, world_size, rank, epoch, seed, pad)])
    return lists


def images_counted(submission: ModuleType, world_size: float) -> int:
    """Return how many of 21 images are in the ranks' lists for an evaluation, each as often as it is there."""
    return sum(len(images) for images in dealt(submission, 21, int(world_size), 0, 7, False))
