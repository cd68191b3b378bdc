"""Hidden checks of communication_budget, in teaching order: data, tensor, pipeline, then links and the whole step."""

from __future__ import annotations

from itertools import product
from typing import Any

from grader.judging import Student, assert_close, assert_equal, check

JOB = {
    "parameters": 7_200_000_000, "layers": 24, "hidden": 4096, "sequence": 2048, "micro_batch": 3, "micro_batches": 5,
    "data": 1, "tensor": 1, "pipeline": 1, "chunks": 1, "zero": 0,
    "parameter_bytes": 2, "gradient_bytes": 4, "activation_bytes": 1,
}  # fmt: skip
CLUSTER = {"gpus_per_node": 8, "inside_bytes_per_s": 300e9, "between_bits_per_s": 200e9}
ACTIVATION = 3 * 2048 * 4096  # elements, and by JOB bytes


def sent(student: Student, function: str, *arguments: Any, **job: Any) -> tuple[float, str]:
    """Return what a function answers for JOB with some sizes changed, and how to call that in a message."""
    changed = ", ".join(f"{name} {value}" for name, value in job.items())
    return student.call(
        function, JOB | job, *arguments
    ).value, f"{function}{''.join(f' of stage {a}' for a in arguments)} ({changed})"


@check(
    hints=(
        "Which part of the gradient does a GPU hold when 4 tensor-parallel ranks and 2 stages share the model?",
        "The parameters of a GPU, times the width of a gradient, all-reduced among the data-parallel ranks.",
    )
)
def check_data_parallelism_reduces_its_own_gradients(student: Student) -> None:
    """Plain data parallelism all-reduces the gradients of the parameters that a GPU holds, once a step."""
    for d, t, p in ((8, 1, 1), (1, 1, 1), (3, 1, 1), (2, 4, 2), (5, 2, 3), (24, 8, 4)):
        whole, held = 7.2e9 * 4, 7.2e9 * 4 / (t * p)
        mistakes = {
            "the gradients of the whole model": 2 * (d - 1) / d * whole,
            "elements, not bytes": 2 * (d - 1) / d * held / 4,
            "an all-reduce for each micro-batch": 5 * 2 * (d - 1) / d * held,
            "bytes of parameters": 2 * (d - 1) / d * held / 2,
        }
        found, what = sent(student, "data_parallel_bytes", data=d, tensor=t, pipeline=p)
        assert_close(found, 2 * (d - 1) / d * held, what, unit="bytes", mistakes=mistakes)


@check(
    hints=(
        "Gradients are scattered, parameters gathered, each in its width. What is kept whole between micro-batches?",
        "At stage 3 the second micro-batch needs the parameters that the first has thrown away. And its gradients?",
        "Count gathers of parameters and scatters of gradients: with m micro-batches stage 3 has 2m and m.",
    )
)
def check_zero_sends_again_what_it_does_not_keep(student: Student) -> None:
    """ZeRO scatters gradients and gathers parameters: once a step if it keeps whole ones, else for each micro-batch."""
    for m, d, (g, w), (t, p) in product((2, 1, 9), (2, 7), ((4, 1), (2, 4)), ((1, 1), (2, 3))):
        unit = (d - 1) / d * 7.2e9 / (t * p)
        for zero, per_element in enumerate((2 * g, g + w, m * g + w, m * (g + 2 * w))):
            mistakes = {"plain data parallelism": 2 * g, "what is sent if both go once a step": g + w}
            mistakes |= {"one gather of parameters, not two": m * (g + w), "one micro-batch's": g + 2 * w}
            known = {name: unit * elements for name, elements in mistakes.items() if zero and elements != per_element}
            sizes = {"zero": zero, "micro_batches": m, "gradient_bytes": g, "parameter_bytes": w}
            found, what = sent(student, "data_parallel_bytes", **sizes, data=d, tensor=t, pipeline=p)
            assert_close(found, unit * per_element, what, unit="bytes", mistakes=known)


@check(
    hints=(
        "What do tensor-parallel ranks add up in a forward: gradients, or the parts of an activation?",
        "Four all-reduces of b·s·h elements in each layer and micro-batch. How many layers does a stage have?",
    )
)
def check_tensor_parallelism_reduces_activations(student: Student) -> None:
    """Tensor parallelism sends 8(t − 1)/t activations a layer and micro-batch, of the layers on a stage."""
    for t, p, m, b in ((2, 1, 1, 1), (8, 1, 5, 3), (8, 4, 7, 2), (1, 2, 5, 3), (3, 6, 4, 1)):
        part = 24 // p * m * ACTIVATION // 3 * b * (t - 1) / t
        mistakes = {
            "an all-reduce of the gradients": 2 * (t - 1) / t * 7.2e9 * 4,
            "the all-reduces of forward alone": 4 * part,
            "the layers of all stages": 8 * part * p,
            "one micro-batch's": 8 * part / m,
            "whole activations for every rank": 8 * part * t,
        }
        found, what = sent(student, "tensor_parallel_bytes", tensor=t, pipeline=p, micro_batches=m, micro_batch=b)
        assert_close(found, 8 * part, what, unit="bytes", mistakes={k: v for k, v in mistakes.items() if v != 8 * part})
    wide, what = sent(student, "tensor_parallel_bytes", tensor=2, activation_bytes=2, parameters=1, zero=3)
    assert_close(wide, 2 * 4 * 24 * 5 * float(ACTIVATION), what, unit="bytes")


@check(
    hints=(
        "Draw the stages, and an arrow for each message of one micro-batch, there and back. How many leave stage 0?",
        "With v chunks a stage has v arrows forward and v back, but for the two ends of the model.",
    )
)
def check_a_pipeline_sends_at_its_borders(student: Student) -> None:
    """A stage sends an activation on for each chunk but the model's last, and a gradient back for all but its first."""
    for p, v, m in ((1, 1, 3), (2, 1, 1), (4, 1, 6), (3, 4, 6), (2, 2, 5)):
        for stage in range(p):
            chunks = [stage + p * i for i in range(v)]
            messages = sum(c < p * v - 1 for c in chunks) + sum(c > 0 for c in chunks)
            unit = m * float(ACTIVATION)
            mistakes = {"an activation forward and none back": unit * sum(c < p * v - 1 for c in chunks)}
            mistakes |= {"both ways for every chunk, the ends too": 2 * v * unit, "one chunk's": unit * messages / v}
            found, what = sent(student, "pipeline_bytes", stage, pipeline=p, chunks=v, micro_batches=m)
            known = {name: value for name, value in mistakes.items() if value != unit * messages}
            assert_close(found, unit * messages, what, unit="bytes", mistakes=known)


@check(
    hints=(
        "Ranks 0, 8, 16 and 24 are four. On how many nodes of eight are they?",
        "Networks are sold in bits. How many bytes a second are 200 Gbit/s?",
    )
)
def check_the_slowest_link_counts(student: Student) -> None:
    """A group on one node uses the link inside, any other the one between nodes, eight bits to the byte."""
    sizes = {"tensor": 3, "data": 4, "pipeline": 2}
    for kind, group in (("tensor", [0, 1, 2]), ("data", [0, 3, 6, 9]), ("pipeline", [0, 12])):
        assert_equal(student.call("group_of_rank_0", JOB | sizes, kind).value, group, f"rank 0's {kind} group")
    groups = [([0, 1, 2, 3], 1), ([0, 8, 16, 24], 4), ([6, 7, 8, 9], 2), ([8, 15], 1), ([5], 1), (list(range(16)), 2)]
    for ranks, nodes in groups:
        seconds = 6e9 / (300e9 if nodes == 1 else 25e9)
        mistakes = {"the time over the link within a node": 6e9 / 300e9, "bits taken for bytes": 6e9 / 200e9}
        found = student.call("transfer_s", 6e9, ranks, CLUSTER).value
        what = f"transfer_s of 6 GB among ranks {ranks[:4]}, {len(ranks)} in all"
        assert_close(found, seconds, what, unit="s", mistakes=mistakes)


@check(
    hints=(
        "A layer cannot go on without its all-reduce; gradients are not needed before the optimizer. Who waits?",
        "What hides behind computation costs nothing, and the rest is added: never less than nothing.",
    )
)
def check_the_worked_example(student: Student) -> None:
    """Two billion parameters: hidden on one node, exposed on four; what cannot be hidden is added to the step."""
    for nodes, printed_s in ((1, 0.053), (4, 0.64)):  # printed with 2 in place of 2(n - 1)/n
        k = 8 * nodes
        n_bytes, what = sent(student, "data_parallel_bytes", data=k, parameters=2_000_000_000)
        assert_close(n_bytes, 16e9 * (k - 1) / k, what, unit="bytes")
        data_s = student.call("transfer_s", n_bytes, list(range(k)), CLUSTER).value
        assert_close(data_s * k / (k - 1), printed_s, f"the example's transfer among {k} GPUs", atol=5e-4, unit="s")
        for tensor_s, pipeline_s, hidden_s in ((0.0, 0.0, 0.42), (0.0, 0.0, 0.28), (0.1, 0.03, 0.42), (0.1, 0.0, 0.0)):
            step_s = 0.42 + tensor_s + pipeline_s + max(0.0, data_s - hidden_s)
            mistakes = {"the step with everything in a row": 0.42 + data_s + tensor_s + pipeline_s}
            mistakes["the longer of computing and communicating"] = max(0.42, data_s + tensor_s + pipeline_s)
            found = student.call("step_s", 0.42, data_s, tensor_s, pipeline_s, hidden_s).value
            what = f"step_s of {k} GPUs, tensor {tensor_s} s, pipeline {pipeline_s} s, hidden {hidden_s} s"
            assert_close(found, step_s, what, unit="s", mistakes={k: v for k, v in mistakes.items() if v != step_s})
