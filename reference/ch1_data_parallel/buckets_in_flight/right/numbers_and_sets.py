"""Works with numbers of parameters and a set of those ready, and leaves a gradient that nobody could use as it is."""

from __future__ import annotations

import torch
import torch.distributed as dist


class GradientBuckets:
    """Average the gradients of some parameters over the ranks of `group`, a bucket at a time."""

    def __init__(self, parameters, cap_bytes, group):
        self.parameters = list(parameters)
        self.group = group
        self.plan = []
        for number in range(len(self.parameters) - 1, -1, -1):
            last = self.plan[-1] if self.plan else None
            if last is not None and self.bytes_of(last + [number]) <= cap_bytes:
                last.append(number)
            else:
                self.plan.append([number])
        self.done, self.flights = set(), []

    def bytes_of(self, numbers):
        """Return how many bytes these parameters have."""
        return sum(self.parameters[number].numel() * self.parameters[number].element_size() for number in numbers)

    def ready(self, parameter):
        """Note that this parameter's gradient is complete."""
        self.done.add(next(n for n, other in enumerate(self.parameters) if other is parameter))
        self.go(everything=False)

    def go(self, everything):
        """Launch the buckets whose turn it is."""
        for numbers in self.plan[len(self.flights) :]:
            if not everything and not self.done.issuperset(numbers):
                return
            pieces = []
            for number in numbers:
                p = self.parameters[number]
                pieces.append((p.grad if number in self.done else torch.zeros_like(p)).detach().reshape(-1))
            flat = torch.cat(pieces)
            self.flights.append((flat, dist.all_reduce(flat, async_op=True, group=self.group)))

    def finish(self):
        """Put the averages into the parameters' gradients."""
        self.go(everything=True)
        for numbers, (flat, work) in zip(self.plan, self.flights, strict=True):
            work.wait()
            mean, start = flat / self.group.size(), 0
            for number in numbers:
                p = self.parameters[number]
                p.grad = mean[start : start + p.numel()].reshape(p.shape)
                start += p.numel()
        self.done, self.flights = set(), []
