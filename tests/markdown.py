"""The fenced blocks of our Markdown files, and how they are run: as a reader would run them.

python -m tests.markdown docs/faq.md   # write the outputs that a page shows once more
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).parents[1]
SHELLS = {"bash", "console", "sh", "shell"}

_FENCE = re.compile(
    r"(?P<skip>^<!-- no-run: .+ -->\n+)?(?P<fails>^<!-- fails -->\n+)?"
    r"^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    language: str
    line: int
    code: str
    fails: bool = False

    def commands(self) -> list[str]:
        """The commands of a shell block; in a console block, those after a `$` prompt."""
        lines = self.code.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]

    def execute(self, file: str, names: dict[str, Any]) -> None:
        """Run a Python block here, in a namespace."""
        # The empty lines make a traceback point at the file's own line.
        exec(compile("\n" * self.line + self.code, file, "exec"), names)


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text, but for those below `<!-- no-run: reason -->`."""
    for found in _FENCE.finditer(text):
        if not found["skip"]:
            line = text.count("\n", 0, found.start("code"))
            yield Block(found["language"], line, found["code"], bool(found["fails"]))


def without_blocks(text: str) -> str:
    """What is left of a text without its fenced blocks, run or not."""
    return _FENCE.sub("", text)


def like_a_clone(folder: Path) -> Path:
    """Make a folder look like the repository."""
    for name in ("examples", "benchmarks", "Makefile"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run_command(command: str, folder: Path, fails: bool = False) -> str:
    """What a shell's command prints, run in a folder with the programs of this environment.

    Args:
        command: one line or several.
        folder: where it runs.
        fails: whether it must be refused as bad input, and its error is what is wanted.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environ, capture_output=True
    )
    expected = 2 if fails else 0
    assert done.returncode == expected, f"`{command}`: {done.returncode}\n{done.stderr.decode()}"
    return (done.stderr if fails else done.stdout).decode()


_NUMBER = re.compile(r"\d+\.\d+")


def is_like(printed: str, shown: str) -> bool:
    """Whether two outputs have the same words, and numbers that differ as those of two CPUs may."""
    numbers = zip(_NUMBER.findall(printed), _NUMBER.findall(shown), strict=False)
    return _NUMBER.sub("#", printed).split() == _NUMBER.sub("#", shown).split() and all(
        abs(float(one) - float(other)) < 0.05 for one, other in numbers
    )


def run_page(page: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Run a page's blocks in order; each output that it shows, and what was printed."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in blocks(page.read_text()):
        if block.language == "text":
            yield block.code, printed
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                block.execute(page.name, names)
            printed = out.getvalue()
        else:
            assert block.language in SHELLS, f"{page}:{block.line}: nothing runs {block.language}"
            code = "\n".join(block.commands()) if block.language == "console" else block.code
            printed = run_command(code, folder, block.fails)


def main(pages: list[str]) -> None:
    """Write what the pages' blocks print where the pages show it."""
    for page in map(Path, pages):
        with tempfile.TemporaryDirectory() as name, contextlib.chdir(like_a_clone(Path(name))):
            text = (ROOT / page).read_text()
            for shown, printed in list(run_page(ROOT / page, Path(name))):
                wrapped = "".join(f"{fill(line, 100)}\n" for line in printed.splitlines())
                text = text.replace(f"```text\n{shown}```", f"```text\n{wrapped}```", 1)
            (ROOT / page).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
