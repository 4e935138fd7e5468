"""A callback that writes what TensorBoard shows, where that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tuneup.files import ensure_writable
from tuneup.runtime import require

from .result import Progress

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


_MODULE = "torch.utils.tensorboard"


class TensorBoard:
    """Loss, learning rate and validation score as event files that TensorBoard shows.

    A stage is a run of its own, in a folder of its own, so that the stages' curves lie over each
    other.  What a resumed or repeated run tells again takes the place of what was told before.

    Args:
        folder: made if missing; ``tensorboard --logdir`` is told the same.
        names: of the stages' folders, where "stage-1", "stage-2" and so on do not say enough.
    """

    def __init__(self, folder: Path | str, names: Sequence[str] = ()) -> None:
        require(_MODULE, "tensorboard")  # says now, not after an epoch, that it is missing
        self.folder = ensure_writable(folder)
        self.names = tuple(names)
        self._stage = 0
        self._writer: SummaryWriter | None = None

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self, told: Progress) -> None:
        """Write one epoch."""
        if self._writer is None or told.stage != self._stage:
            self.close()
            self._stage = told.stage
            named = told.stage <= len(self.names)
            name = self.names[told.stage - 1] if named else f"stage-{told.stage}"
            writer = require(_MODULE, "tensorboard").SummaryWriter
            self._writer = writer(str(self.folder / name), purge_step=told.epoch)
        assert self._writer is not None
        values = {"loss": told.loss, "lr": told.lr, f"validation {told.metric}": told.score}
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, told.epoch)
        self._writer.flush()
        if told.stopped:
            self.close()

    def close(self) -> None:
        """Close the file that is open; a later epoch opens another."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None
