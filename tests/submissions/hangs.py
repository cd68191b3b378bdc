"""Ranks that wait for each other in vain, each in its own way."""

import os
import signal

import torch
import torch.distributed as dist


def leaves_early(x, group):
    if dist.get_rank() == 0:
        return x
    dist.all_reduce(x, group=group)


def calls_another(x, group):
    if dist.get_rank() == 0:
        dist.all_reduce(x, group=group)
    else:
        dist.broadcast(x, 0, group=group)


def brings_another_shape(x, group):
    dist.all_reduce(torch.ones(2 + dist.get_rank()), group=group)


def brings_another_dtype(x, group):
    dist.all_reduce(torch.ones(2, dtype=[torch.int32, torch.float32][dist.get_rank() % 2]), group=group)


def sends_to_each_other(x, group):
    other = (dist.get_rank() + 1) % dist.get_world_size()
    dist.send(x, other)
    dist.recv(x, (dist.get_rank() - 1) % dist.get_world_size())


def loops(x, group):
    while dist.get_rank() == 1:
        pass
    dist.all_reduce(x, group=group)


def dies(x, group):
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x, group=group)


def crashes(x, group):
    if dist.get_rank() == 1:
        signal.raise_signal(signal.SIGSEGV)
    dist.all_reduce(x, group=group)


def never_calls(x, group):
    if dist.get_rank() == 1:
        import time

        time.sleep(60)
    dist.all_reduce(x, group=group)


def names_a_source_outside(x, group):
    if dist.get_rank(group) >= 0:
        dist.broadcast(x, src=2, group=group)  # 2 is its rank in nothing: the group is ranks 0 and 1
    return x


def raises_alone(x, group):
    if dist.get_rank() == 1:
        raise KeyError("momentum")
    dist.all_reduce(x, group=group)


def waits_for_the_wrong_one(x, group):
    if dist.get_rank() == 0:
        dist.recv(x, 2)
    elif dist.get_rank() == 1:
        dist.send(x, 0)
    return x


def exits(x, group):
    if dist.get_rank() == 1:
        os._exit(0)
    dist.all_reduce(x, group=group)


def forgets_to_wait(x, group):
    dist.all_reduce(x, async_op=True)
    return x
