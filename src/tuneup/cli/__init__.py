"""The command line: arguments in, one clear line out where something is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import typer

from tuneup import __version__
from tuneup.errors import InputError, PeerError, TuneupError
from tuneup.runtime import out_of_memory, relaunch

from . import bench, catalogue, demo, fit, ingest, inspect, predict, report, serve
from .options import NarrowHelp, flowing

_INTERRUPTED = 130
"""What a shell calls a program that Ctrl-C ended."""

_HELP = {"-h", "--help", "--version"}

_SAVES_MEMORY = {
    "--batch-size": "a smaller --batch-size",
    "--width": "a smaller --width",
    "--exclude": "fewer features (--exclude)",
    "--ids": "fewer nodes at a time (--ids)",
}

app = typer.Typer(
    name="tuneup",
    help="Graph neural networks that are good on the nodes with few edges.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo.command,
    "report": report.command,
    "datasets": catalogue.datasets,
    "predict": predict.command,
    "methods": catalogue.methods,
    "fit": fit.command,
    "inspect": inspect.command,
    "serve": serve.command,
    "compact": serve.compact,
    "refresh": serve.refresh,
    "ingest": ingest.command,
}
for _name, _command in _COMMANDS.items():
    app.command(_name, help=flowing(_command.__doc__))(_command)
for _known in (*app.registered_commands, *bench.app.registered_commands):
    _known.cls = NarrowHelp
app.add_typer(bench.app, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tuneup {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Graph neural networks that are good on the nodes with few edges."""


def main() -> None:
    """Run the command line; the exit code is 0, 1 (failed), 2 (bad input) or 130 (interrupted)."""
    if not _HELP & {*sys.argv}:
        relaunch()  # nothing heavy is imported yet, so it costs next to nothing here
    try:
        code = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except PeerError:
        sys.exit(1)  # another process of this training says why
    except InputError as error:
        _stop(f"Error: {error}", 2)
    except TuneupError as error:
        _stop(f"Error: {error}", 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _stop(f"Error: {where}{error.strerror or error}.", 1)
    except Exception as error:
        if out_of_memory(error):
            _stop(f"Error: out of memory; try {_memory_advice(sys.argv[1:])}.", 1)
        if not hasattr(error, "exit_code"):
            raise
        text = getattr(error, "format_message", error.__str__)()
        if not text:  # no command was given: the help has been shown
            sys.exit(2)
        _stop(f"Error: {text}", 2)
    if code == _INTERRUPTED:
        _stop("Interrupted: nothing half-written is left.", code)
    sys.exit(code if isinstance(code, int) else 0)


def _memory_advice(words: Sequence[str]) -> str:
    """Which options of the command that was typed take less memory."""
    command = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    known = {name for param in command.params for name in param.opts}
    found = [advice for option, advice in _SAVES_MEMORY.items() if option in known]
    return " or ".join([*found, "a machine with more memory"])


def _stop(line: str, code: int) -> None:
    typer.echo(line, err=True)
    sys.exit(code)
