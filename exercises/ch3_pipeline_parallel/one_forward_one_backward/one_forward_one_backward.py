"""Order the work of a pipeline's ranks: one forward, one backward (1F1B)."""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    warm_up = rank  # so many micro-batches are under way before this stage by the time it starts
    actions = [f"{rank}F{i}" for i in range(warm_up)]
    for i in range(warm_up, micro_batches):
        actions += [f"{rank}F{i}", f"{rank}B{i - warm_up}"]
    return actions + [f"{rank}B{i}" for i in range(micro_batches - warm_up, micro_batches)]


def play(rows: list[list[str]]) -> list[list[str]]:
    """Let every rank do its list, one action a step, and return what each did in each step: "." if it had to wait."""
    done: set[str] = set()
    steps: list[list[str]] = []
    while not steps or any(action != "." for action in steps[-1]):
        waiting = [next((action for action in row if action not in done), ".") for row in rows]
        steps.append([action if _is_ready(action, done, len(rows)) else "." for action in waiting])
        done.update(steps[-1])
    return steps[:-1]


def _is_ready(action: str, done: set[str], ranks: int) -> bool:
    """Return whether all that an action needs has been done."""
    if action == ".":
        return False
    kind = "F" if "F" in action else "B"
    stage, micro_batch = map(int, action.split(kind))
    if kind == "F":
        return stage == 0 or f"{stage - 1}F{micro_batch}" in done
    return f"{stage}F{micro_batch}" in done and (stage == ranks - 1 or f"{stage + 1}B{micro_batch}" in done)


def show(rows: list[list[str]], steps: list[list[str]]) -> None:
    """Print the steps, and what each rank would do next if it could."""
    done = {action for step in steps for action in step}
    for rank, row in enumerate(rows):
        then = next((f"waits to do {action}" for action in row if action not in done), "done")
        print(f"rank {rank}  {'  '.join(f'{step[rank]:3}' for step in steps)}  {then}")
    print(f"{len(steps)} steps, expected 2 * (6 + 4 - 1) = 18")


if __name__ == "__main__":
    four_ranks = [schedule(rank, ranks=4, micro_batches=6) for rank in range(4)]
    show(four_ranks, play(four_ranks))
