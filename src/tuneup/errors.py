"""Every error that tuneup raises on purpose.

Each message says what was wrong, where, what is allowed and what to do, in one line: the command
line prints it unchanged.
"""


class TuneupError(Exception):
    """Base of all errors below; catch this to catch any of them."""


class InputError(TuneupError, ValueError):
    """An argument, a file or a graph given by the user cannot be used.

    Raised before any work is done.

    Args:
        message: what was wrong, where, what is allowed and what to do.
        fix: the option of the command line, and its value if it has one, that would solve it.
    """

    def __init__(self, message: str = "", *, fix: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fix = fix


class OutputError(TuneupError, OSError):
    """Something cannot be written: no permission, a full disk, a file in the place of a folder.

    Raised before training by `tuneup.files.ensure_writable`, and by a write that fails later.
    """


class DownloadError(TuneupError):
    """A file of a dataset is missing and cannot be downloaded; the message says how to get it."""


class DivergenceError(TuneupError, ArithmeticError):
    """Training stopped because the loss or the weights are no longer finite.

    The model is left in its last good state.
    """


class CheckpointError(TuneupError):
    """A checkpoint cannot be read, or belongs to another run or version than the one resumed."""


class ArtefactError(InputError):
    """A saved model cannot be read: damaged, incomplete, or written by a newer version."""


class PeerError(TuneupError):
    """Another of the processes that train together has failed, and says why itself."""
