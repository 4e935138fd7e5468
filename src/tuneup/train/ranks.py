"""Training in several processes, on one machine or many: who has which part, and what is shared.

``torchrun`` starts the processes; each is a *rank*.  All ranks hold the same graph, go through the
same batches in the same order, and take the loss on a slice of every batch.  Gradients are weighted
by the slices and added up, so that R ranks take the step that one would take on the whole batch::

    sum over ranks of  weight(slice) / weight(batch) * gradient(mean loss of the slice)

Slices of a batch differ by at most one example, and every rank takes part in every step, one
without an example with zeros: no rank waits for another that has fewer batches.  Where neighbours
are sampled, a node draws the same ones on every rank if all layers have one fan-out; with smaller
ones further out, a slice's sample is that of a smaller batch.

Rank 0 alone computes what decides how training continues (validation, pseudo-labels, checkpoints)
and sends it to the others: they need no folder of checkpoints, and cannot diverge from it.  Batch
norms take their statistics from a rank's own slice, as in any data-parallel training, so with them
losses are not those of one rank.

This module knows nothing of tasks, and little of the loop: that asks :class:`Ranks`.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from safetensors.torch import load as deserialise
from safetensors.torch import save as serialise
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from tuneup.errors import InputError, PeerError, TuneupError

from .checkpoints import Checkpoints, Entry, Kind

T = TypeVar("T")

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_PATIENCE = 900.0
"""Seconds that ranks wait for each other at the start."""
_NONE, _DENSE, _SPARSE = range(3)
_MISSING, _FAILED = -1, -2
"""Lengths that stand for no entry, and for an error of rank 0."""


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together; alone, every method does next to nothing.

    Args:
        rank: its number, from 0.
        world: how many there are.
    """

    rank: int = 0
    world: int = 1

    @classmethod
    def current(cls) -> Ranks:
        """By the process group that there is; alone without one."""
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which prints, validates and writes."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.world > 1

    # Messages

    def send(self, tensor: Tensor) -> Tensor:
        """Rank 0's tensor, in place, on every rank."""
        if self.several:
            with _lost_peers():
                dist.broadcast(tensor, 0)
        return tensor

    def add(self, tensor: Tensor) -> Tensor:
        """The sum over ranks, in place."""
        if self.several:
            with _lost_peers():
                dist.all_reduce(tensor)
        return tensor

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all ranks, of one shape."""
        if not self.several:
            return [tensor]
        found = [torch.empty_like(tensor) for _ in range(self.world)]
        with _lost_peers():
            dist.all_gather(found, tensor)
        return found

    def number(self, compute: Callable[[], float]) -> float:
        """What rank 0 computes; the others wait for it."""
        if not self.several:
            return compute()
        value = compute() if self.is_main else 0.0
        return float(self.send(torch.tensor(value, dtype=torch.float64, device=_device())))

    def entry(self, compute: Callable[[], Entry | None]) -> Entry | None:
        """The tensors and JSON that rank 0 finds; an error there ends all ranks."""
        if not self.several:
            return compute()
        error, entry, data = None, None, b""
        size = torch.zeros(1, dtype=torch.long)
        if self.is_main:
            try:
                entry = compute()
            except Exception as problem:
                error = problem
                size[0] = _FAILED
            else:
                size[0] = _MISSING
                if entry is not None:
                    data = _packed(entry)
                    size[0] = len(data)
        count = int(self.send(size.to(_device())))
        if error is not None:
            raise error
        if count == _FAILED:
            raise PeerError("rank 0 failed; its message says why.")
        if count == _MISSING:
            return None
        body = torch.empty(count, dtype=torch.uint8, device=_device())
        if self.is_main:
            body.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        self.send(body)
        return entry if self.is_main else _unpacked(body.cpu().numpy().tobytes())

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block that every rank runs for itself; if one fails, all end, and one says why."""
        error: BaseException | None = None
        try:
            yield
        except Exception as problem:
            error = problem
        failed = [bool(flag) for flag in self.gather(_flag(error is not None))]
        if error is not None and True not in failed[: self.rank]:
            raise error
        if True in failed:
            raise PeerError(f"rank {failed.index(True)} failed; its message says why.")

    def agree(self, what: str, value: str, fix: str) -> None:
        """Refuse to train if ranks differ in something.

        Raises:
            InputError: on rank 0, about the first rank that differs from it.
            PeerError: on the others.
        """
        digest = torch.tensor([*hashlib.sha256(value.encode()).digest()], dtype=torch.uint8)
        found = [bytes(each.tolist()).hex()[:12] for each in self.gather(digest.to(_device()))]
        odd = next((rank for rank, each in enumerate(found) if each != found[0]), None)
        if odd is None:
            return
        if self.is_main:
            raise InputError(
                f"{what} differs between processes: got {found[odd]} on rank {odd}, expected "
                f"{found[0]} as on rank 0; {fix}."
            )
        raise PeerError(f"rank {odd} differs from rank 0, whose message says how.")

    @contextmanager
    def one_voice(self) -> Iterator[None]:
        """A block in which all ranks meet the same errors, of which rank 0 alone speaks."""
        try:
            yield
        except PeerError:
            raise
        except TuneupError as error:
            if self.is_main:
                raise
            raise PeerError("rank 0 says why.") from error

    # Modules

    def share_state(self, modules: Mapping[str, nn.Module]) -> None:
        """Rank 0's parameters and buffers, on every rank."""
        if self.several:
            with torch.no_grad():
                for module in modules.values():
                    for tensor in (*module.parameters(), *module.buffers()):
                        self.send(tensor.data)

    def average_buffers(self, module: nn.Module) -> None:
        """The mean over ranks of what batch norms counted: each saw the nodes of its own slice."""
        if self.several:
            for buffer in module.buffers():
                if buffer.is_floating_point():
                    self.add(buffer.data).div_(self.world)

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Add up gradients; a parameter that no rank has one for keeps none."""
        if not self.several or not parameters:
            return
        kinds = torch.tensor([_kind(each) for each in parameters], device=_device())
        with _lost_peers():
            dist.all_reduce(kinds, dist.ReduceOp.MAX)
        found = kinds.tolist()
        groups: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
        for parameter, kind in zip(parameters, found, strict=True):
            if kind == _SPARSE:
                self._add_sparse(parameter)
            elif kind == _DENSE:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                groups.setdefault((parameter.dtype, parameter.device), []).append(parameter)
        for members in groups.values():  # all in one message
            gradients = [each.grad for each in members if each.grad is not None]
            flat = self.add(torch.cat([each.reshape(-1) for each in gradients]))
            for gradient, part in zip(
                gradients, flat.split([each.numel() for each in gradients]), strict=True
            ):
                gradient.copy_(part.view_as(gradient))

    def _add_sparse(self, parameter: nn.Parameter) -> None:
        """Add up gradients of a few rows each: only these rows are sent."""
        grad = parameter.grad
        if grad is None:
            grad = torch.sparse_coo_tensor(
                torch.empty((1, 0), dtype=torch.long, device=parameter.device),
                parameter.new_empty((0, *parameter.shape[1:])),
                parameter.shape,
                check_invariants=False,
            )
        grad = grad.coalesce() if grad.is_sparse else grad.to_sparse(1).coalesce()
        rows, values = grad.indices()[0], grad.values()
        counts = [int(each) for each in self.gather(torch.tensor([rows.numel()], device=_device()))]
        most = max(counts)
        padded_rows = torch.zeros(most, dtype=torch.long, device=rows.device)
        padded = values.new_zeros((most, *values.shape[1:]))
        padded_rows[: rows.numel()], padded[: rows.numel()] = rows, values
        all_rows, all_values = self.gather(padded_rows), self.gather(padded)
        index = torch.cat([each[:n] for each, n in zip(all_rows, counts, strict=True)])
        total = torch.cat([each[:n] for each, n in zip(all_values, counts, strict=True)])
        parameter.grad = torch.sparse_coo_tensor(
            index[None], total, parameter.shape, check_invariants=False
        ).coalesce()

    def store(self, store: Checkpoints | None) -> Checkpoints | None:
        """A store that rank 0 reads and writes, and that every rank can ask."""
        return SharedCheckpoints.over(store, self) if store is not None and self.several else store


@dataclass(frozen=True)
class SharedCheckpoints(Checkpoints):
    """Checkpoints of which rank 0 reads and writes the folder, and sends what it finds."""

    ranks: Ranks = Ranks()

    @classmethod
    def over(cls, store: Checkpoints, ranks: Ranks) -> SharedCheckpoints:
        """The same store for several ranks."""
        if isinstance(store, SharedCheckpoints):
            return store
        return cls(
            store.folder,
            store.every,
            store.steps,
            store.minutes,
            _stages=store._stages,
            ranks=ranks,
        )

    def prepare(self) -> None:
        """Fail now, on every rank, if rank 0 cannot write."""
        with self.ranks.together():
            if self.ranks.is_main:
                super().prepare()

    def find(self, digest: str, kind: Kind = "stage") -> Entry | None:
        """What rank 0 finds."""
        return self.ranks.entry(lambda: super(SharedCheckpoints, self).find(digest, kind))

    def add(self, digest: str, entry: Entry) -> None:
        """Store a finished stage, by rank 0."""
        if self.ranks.is_main:
            super().add(digest, entry)

    def is_due(self, steps: int, seconds: float) -> bool:
        """Whether rank 0 saves within an epoch."""
        return self.ranks.is_main and super().is_due(steps, seconds)

    def save_progress(self, digest: str, entry: Entry) -> None:
        """Store a stage in progress, by rank 0."""
        if self.ranks.is_main:
            super().save_progress(digest, entry)

    def remove(self, digest: str) -> None:
        """Remove what is stored, by rank 0."""
        if self.ranks.is_main:
            super().remove(digest)

    @contextmanager
    def locked(self, digest: str) -> Iterator[None]:
        """Hold a stage, by rank 0; the others wait for what it finds."""
        if self.ranks.is_main:
            with super().locked(digest):
                yield
        else:
            yield

    def warn_of_other_weights(self, digests: Sequence[str]) -> None:
        """Warn, on rank 0."""
        if self.ranks.is_main:
            super().warn_of_other_weights(digests)


def join(environ: Mapping[str, str] = os.environ) -> Ranks:
    """Join the processes that ``torchrun`` started; alone if it did not.

    A process group that is there is used as it is.  One that is made here talks by NCCL where every
    process has a GPU of its own and by gloo elsewhere, and ends with the process.

    Raises:
        InputError: If the variables of torchrun do not fit together, or a process cannot be
            reached.
    """
    if dist.is_available() and dist.is_initialized():
        return Ranks.current()
    if not environ.get("WORLD_SIZE", "").isdecimal() or int(environ["WORLD_SIZE"]) < 2:
        return Ranks()
    if not environ.get("LOCAL_RANK", "").isdecimal():
        return Ranks()  # another program's variables: torchrun sets this one too
    missing = [name for name in _VARIABLES if not environ.get(name)]
    if missing:
        raise InputError(
            f"{missing[0]}: not set, though WORLD_SIZE is {environ['WORLD_SIZE']}; start the "
            "processes with torchrun."
        )
    rank, world = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    if not rank < world:
        raise InputError(f"RANK: got {rank}; expected 0 to {world - 1} (WORLD_SIZE {world}).")
    local, backend = int(environ["LOCAL_RANK"]), "gloo"
    if torch.cuda.is_available() and local < torch.cuda.device_count():
        torch.cuda.set_device(local)
        backend = "nccl"
    try:
        found, *_ = next(rendezvous("env://", rank, world))
        store = _fresh_store(found, rank, world)
        limit = timedelta(hours=2)
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"cannot reach the other processes: {str(error).splitlines()[0]}; check "
            "--rdzv-endpoint and that all machines see each other."
        ) from error
    atexit.register(_leave)
    return Ranks.current()


def _fresh_store(store: Any, rank: int, world: int) -> Any:
    """A part of torchrun's store that is this start's alone.

    The store outlives its workers, and after a restart holds addresses of those that died.  So rank
    0 gives a name to every rank that announces itself, until all have answered to it.
    """
    own, announced = os.urandom(8).hex(), "tuneup/announced/{}"
    end = time.monotonic() + _PATIENCE

    def wait() -> None:
        if time.monotonic() > end:
            raise RuntimeError(f"nobody answered rank {rank} for {_PATIENCE} s")
        time.sleep(0.02)

    if rank:
        store.set(announced.format(rank), own)
        while not store.check([f"tuneup/name/{own}"]):
            wait()
        given = store.get(f"tuneup/name/{own}").decode()
        store.set(f"tuneup/answered/{given}/{rank}", "yes")
        return PrefixStore(f"tuneup/{given}", store)
    missing = set(range(1, world))
    while missing:
        for other in tuple(missing):
            if store.check([announced.format(other)]):  # perhaps by a rank that died: it is silent
                store.set(f"tuneup/name/{store.get(announced.format(other)).decode()}", own)
            if store.check([f"tuneup/answered/{own}/{other}"]):
                missing.remove(other)
        wait()
    return PrefixStore(f"tuneup/{own}", store)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def _lost_peers() -> Iterator[None]:
    """An error of a message means that another process has ended."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PeerError(f"another process has ended ({reason}).") from error


def _device() -> torch.device:
    """Where messages are made."""
    nccl = dist.is_initialized() and dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")


def _flag(value: bool) -> Tensor:
    return torch.tensor([value], dtype=torch.uint8, device=_device())


def _kind(parameter: nn.Parameter) -> int:
    if parameter.grad is None:
        return _NONE
    return _SPARSE if parameter.grad.is_sparse else _DENSE


def _packed(entry: Entry) -> bytes:
    tensors = {name: tensor.detach().contiguous() for name, tensor in entry.tensors.items()}
    return bytes(serialise(tensors, {"plain": json.dumps(entry.plain, allow_nan=False)}))


def _unpacked(data: bytes) -> Entry:
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    plain: dict[str, Any] = json.loads(header["__metadata__"]["plain"])
    return Entry(deserialise(data), plain)
