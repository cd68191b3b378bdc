"""A process group that describes every operation before it lets it begin.

Python's torch.distributed and C++ (DistributedDataParallel, functional collectives) call the same methods; each turns
its arguments into one `Operation` and hands it to `begin`. Methods of one family share a name, since gloo too lets
them meet: all_gather, all_gather_single and their coalesced kinds are all `all_gather`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions

from grader.ranks.operations import Membership, Operation, is_called_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor
    from torch.distributed import Work

    Tensors = list[Tensor]

MESSAGES: Final = frozenset({"send", "isend", "recv", "irecv"})
GAPS: Final = (
    "The {} has gaps in memory or dimensions in another order, so that the network would move the wrong elements. "
    "Pass tensor.contiguous(), and copy the result back where it is not only sent."
)
ProcessGroup: Any = dist.ProcessGroup  # untyped: the stubs' overloads cannot be overridden one method at a time


class RecordedGroup(ProcessGroup):  # type: ignore[misc]  # see above
    """Describe operations; a subclass says in `begin` what becomes of them."""

    def __init__(self, rank: int, ranks: Sequence[int]) -> None:
        """Begin as the member number `rank` of the global `ranks`."""
        super().__init__(rank, len(ranks))
        self.ranks = tuple(ranks)
        self._name = self._desc = ""

    def begin(self, operation: Operation, method: str, *args: object) -> Work:
        """Begin an operation, which came as a call of the group's `method` with `args`."""
        raise NotImplementedError

    # ---- what torch asks a group about itself

    @property
    def membership(self) -> Membership:
        """Return who this group is."""
        return Membership(self._name, self.ranks)

    @property
    def group_name(self) -> str:
        """Return the name under which torch registered the group."""
        return self._name

    @property
    def group_desc(self) -> str:
        """Return what torch says the group is for."""
        return self._desc

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc

    # ---- reductions

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Work:
        """Reduce in place on every rank."""
        opts = opts or dist.AllreduceOptions()
        operation = Operation("all_reduce", tensors, [tensors], [tensors], **_settings(opts))
        return self.begin(operation, "allreduce", tensors, opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        """Reduce several tensors as one."""
        opts = opts or dist.AllreduceCoalescedOptions()
        operation = Operation("all_reduce", tensors, [tensors], [tensors], **_settings(opts))
        return self.begin(operation, "allreduce_coalesced", tensors, opts)

    def reduce(self, tensors: Tensors, opts: Any = None) -> Work:
        """Reduce in place on the root."""
        opts = opts or dist.ReduceOptions()
        outputs = [tensors] if self._is_root(opts) else []
        operation = Operation("reduce", tensors, [tensors], outputs, peer=self._root(opts), **_settings(opts))
        return self.begin(operation, "reduce", tensors, opts)

    def reduce_scatter(self, outputs: Tensors, inputs: list[Tensors], opts: Any = None) -> Work:
        """Reduce lists of tensors, one tensor for each member."""
        opts = opts or dist.ReduceScatterOptions()
        known = [tensor for part in inputs for tensor in part]
        operation = Operation("reduce_scatter", known, _transposed(inputs), [outputs], **_settings(opts))
        return self.begin(operation, "reduce_scatter", outputs, inputs, opts)

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Work:
        """Reduce one tensor whose equal parts are for one member each."""
        opts = opts or dist.ReduceScatterOptions()
        inputs = _transposed([self._parts(tensor, output)])
        operation = Operation("reduce_scatter", [tensor], inputs, [[output]], **_settings(opts))
        return self.begin(operation, "reduce_scatter_single", output, tensor, opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, tensors: Tensors, opts: Any = None) -> Work:
        """Do several `reduce_scatter_single` as one."""
        opts = opts or dist.ReduceScatterOptions()
        inputs = _transposed(map(self._parts, tensors, outputs))
        operation = Operation("reduce_scatter", tensors, inputs, [outputs], **_settings(opts))
        return self.begin(operation, "reduce_scatter_single_coalesced", outputs, tensors, opts)

    # ---- gathering and scattering

    def allgather(self, outputs: list[Tensors], tensors: Tensors, opts: Any = None) -> Work:
        """Gather into lists of tensors on every rank."""
        opts = opts or AllgatherOptions()
        operation = Operation("all_gather", tensors, [tensors], _transposed(outputs), **_settings(opts))
        return self.begin(operation, "allgather", outputs, tensors, opts)

    def allgather_coalesced(self, outputs: list[Tensors], tensors: Tensors, opts: Any = None) -> Work:
        """Gather several tensors as one; `outputs` has one list for each member."""
        opts = opts or AllgatherOptions()
        operation = Operation("all_gather", tensors, [tensors], outputs, **_settings(opts))
        return self.begin(operation, "allgather_coalesced", outputs, tensors, opts)

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Work:
        """Gather into one tensor."""
        opts = opts or AllgatherOptions()
        outputs = _transposed([self._parts(output, tensor)])
        operation = Operation("all_gather", [tensor], [[tensor]], outputs, **_settings(opts))
        return self.begin(operation, "all_gather_single", output, tensor, opts)

    def all_gather_single_coalesced(self, outputs: Tensors, tensors: Tensors, opts: Any = None) -> Work:
        """Do several `all_gather_single` as one."""
        opts = opts or AllgatherOptions()
        parts = _transposed(map(self._parts, outputs, tensors))
        operation = Operation("all_gather", tensors, [tensors], parts, **_settings(opts))
        return self.begin(operation, "all_gather_single_coalesced", outputs, tensors, opts)

    def gather(self, outputs: list[Tensors], tensors: Tensors, opts: Any = None) -> Work:
        """Gather into a list of tensors on the root."""
        opts = opts or dist.GatherOptions()
        parts = _transposed(outputs) if self._is_root(opts) else []
        operation = Operation("gather", tensors, [tensors], parts, peer=self._root(opts), **_settings(opts))
        return self.begin(operation, "gather", outputs, tensors, opts)

    def scatter(self, outputs: Tensors, inputs: list[Tensors], opts: Any = None) -> Work:
        """Hand one tensor of the root's list to each member."""
        opts = opts or dist.ScatterOptions()
        parts = _transposed(inputs) if self._is_root(opts) else []
        operation = Operation("scatter", outputs, parts, [outputs], peer=self._root(opts), **_settings(opts))
        return self.begin(operation, "scatter", outputs, inputs, opts)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Work:
        """Copy the root's tensor to every member."""
        opts = opts or dist.BroadcastOptions()
        inputs, outputs = ([tensors], []) if self._is_root(opts) else ([], [tensors])
        operation = Operation("broadcast", tensors, inputs, outputs, peer=self._root(opts), **_settings(opts))
        return self.begin(operation, "broadcast", tensors, opts)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """Hand one tensor to each member."""
        opts = opts or dist.AllToAllOptions()
        pieces, rooms = [[tensor] for tensor in inputs], [[tensor] for tensor in outputs]
        operation = Operation("all_to_all", inputs, pieces, rooms, **_settings(opts))
        return self.begin(operation, "alltoall", outputs, inputs, opts)

    def all_to_all_single(
        self, output: Tensor, tensor: Tensor, output_splits: list[int], input_splits: list[int], opts: Any = None
    ) -> Work:
        """Hand some rows of one tensor to each member."""
        opts = opts or dist.AllToAllOptions()
        pieces, rooms = self._rows(tensor, input_splits), self._rows(output, output_splits)
        operation = Operation("all_to_all", [tensor], pieces, rooms, **_settings(opts))
        return self.begin(operation, "all_to_all_single", output, tensor, output_splits, input_splits, opts)

    def barrier(self, opts: Any = None) -> Work:
        """Wait for every member."""
        opts = opts or dist.BarrierOptions()
        return self.begin(Operation("barrier", [], **_settings(opts)), "barrier", opts)

    # ---- messages

    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> Work:
        """Send to the member number `peer`."""
        op = "send" if is_called_by("send") else "isend"
        ends: dict[str, Any] = {"peer": self.ranks[peer], "tag": tag, "is_async": op == "isend"}
        return self.begin(Operation(op, tensors, inputs=[tensors], **ends), "send", tensors, peer, tag)

    def recv(self, tensors: Tensors, peer: int, tag: int = 0) -> Work:
        """Receive from the member number `peer`."""
        op = "recv" if is_called_by("recv") else "irecv"
        ends: dict[str, Any] = {"peer": self.ranks[peer], "tag": tag, "is_async": op == "irecv"}
        return self.begin(Operation(op, tensors, outputs=[tensors], **ends), "recv", tensors, peer, tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        """Receive from any member."""
        op = "recv" if is_called_by("recv") else "irecv"
        operation = Operation(op, tensors, outputs=[tensors], tag=tag, is_async=op == "irecv")
        return self.begin(operation, "recv_anysource", tensors, tag)

    # ---- the older names of some methods, which C++ and older callers use

    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # ---- arguments

    def _root(self, opts: Any) -> int:
        return self.ranks[int(opts.rootRank)]

    def _is_root(self, opts: Any) -> bool:
        return bool(opts.rootRank == self.rank())

    def _parts(self, whole: Tensor, part: Tensor) -> Tensors:
        """Return the equal parts of a whole, one for each member."""
        members, size = len(self.ranks), part.numel()
        if whole.numel() != members * size:
            raise ValueError(
                f"The larger tensor has {whole.numel()} elements, but {members} ranks times {size} elements are "
                f"{members * size}. Make it exactly as large as the parts of all ranks together."
            )
        if not whole.is_contiguous():
            raise RuntimeError(GAPS.format("tensor of parts"))
        flat = whole.detach().view(-1)
        return [flat[place * size : (place + 1) * size] for place in range(members)]

    def _rows(self, tensor: Tensor, splits: list[int]) -> list[Tensors]:
        """Return the rows of a tensor for, or from, each member."""
        members, rows = len(self.ranks), tensor.size(0)
        if not splits and rows % members:
            raise ValueError(f"{rows} rows cannot be split evenly over {members} ranks. Give the split sizes.")
        if splits and (len(splits) != members or sum(splits) != rows):
            raise ValueError(f"The split sizes {list(splits)} must be one for each of {members} ranks, in sum {rows}.")
        return [[part] for part in torch.split(tensor.detach(), list(splits) or [rows // members] * members)]


def refuse_gaps(operation: Operation) -> None:
    """Raise for tensors that gloo refuses, or of which it would silently read and write the wrong elements."""
    for tensor in (tensor for buffer in (*operation.inputs, *operation.outputs) for tensor in buffer):
        if not tensor.is_contiguous() and (operation.op in MESSAGES or not _is_dense(tensor)):
            raise RuntimeError(GAPS.format(f"tensor of {operation.op}"))


def _is_dense(tensor: Tensor) -> bool:
    """Say whether the elements of a tensor lie side by side, in whatever order of its dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _settings(opts: Any) -> dict[str, Any]:
    """Return which reduction the options name, if any, and whether the caller goes on before the end."""
    reduce = getattr(opts, "reduceOp", None)
    return {"reduce": "" if reduce is None else _reduction(reduce), "is_async": bool(opts.asyncOp)}


def _reduction(reduce: Any) -> str:
    """Return the name of a reduction: sum, avg, max ..."""
    return str(getattr(reduce, "op", reduce).name).lower()


def _transposed(lists: Iterable[Tensors]) -> list[Tensors]:
    """Turn a list of tensors for each coalesced operation into one for each member."""
    return [list(buffer) for buffer in zip(*lists, strict=True)]
