"""Keeps one buffer a bucket for all steps, divides before launching, and copies into the gradients."""

from __future__ import annotations

import torch
import torch.distributed as dist


class Bucket:
    """Hold some parameters and the buffer in which their gradients travel."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.buffer = torch.zeros(sum(p.numel() for p in parameters), dtype=parameters[0].dtype)
        pieces = self.buffer.split([parameter.numel() for parameter in parameters])
        self.views = [piece.view_as(p) for piece, p in zip(pieces, parameters, strict=True)]
        self.reset()

    def reset(self):
        """Begin a step."""
        self.filled = set()
        self.work = None

    def launch(self, group):
        """Average the buffer over the ranks."""
        for view, parameter in zip(self.views, self.parameters, strict=True):
            if parameter in self.filled:
                view.copy_(parameter.grad)
            else:
                view.zero_()
        self.buffer /= dist.get_world_size(group)
        self.work = dist.all_reduce(self.buffer, group=group, async_op=True)


class GradientBuckets:
    """Average the gradients of some parameters over the ranks of `group`, a bucket at a time."""

    def __init__(self, parameters, cap_bytes, group):
        self.group, self.of, self.buckets = group, {}, []
        room, filling = cap_bytes, []
        for parameter in list(parameters)[::-1]:
            nbytes = parameter.nbytes
            if filling and nbytes > room:
                self.buckets.append(Bucket(filling))
                filling, room = [], cap_bytes
            filling.append(parameter)
            room -= nbytes
        if filling:
            self.buckets.append(Bucket(filling))
        for bucket in self.buckets:
            for parameter in bucket.parameters:
                self.of[parameter] = bucket

    def ready(self, parameter):
        """Note that this parameter's gradient is complete."""
        self.of[parameter].filled.add(parameter)
        for bucket in self.buckets:
            if len(bucket.filled) < len(bucket.parameters):
                break
            if bucket.work is None:
                bucket.launch(self.group)

    def finish(self):
        """Put the averages into the parameters' gradients."""
        for bucket in self.buckets:
            if bucket.work is None:
                bucket.launch(self.group)
        for bucket in self.buckets:
            bucket.work.wait()
            for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
                parameter.grad = view.clone()
            bucket.reset()
