"""The README tells the truth: its code runs, its commands exist, its versions agree."""

import difflib
import importlib
import importlib.metadata
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tuneup
from tests.markdown import ROOT, SHELLS, Block, blocks, is_like, like_a_clone, run_command


def readme() -> str:
    path = ROOT / "README.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


BLOCKS = list(blocks(readme()))
COMMANDS = [command for block in BLOCKS if block.language in SHELLS for command in block.commands()]


def test_readme_exists_and_fits_two_screens() -> None:
    assert readme(), f"{ROOT / 'README.md'} is missing or empty"
    assert len(readme().splitlines()) <= 170


def test_readme_opens_with_demo_and_test() -> None:
    assert [command.split("#")[0].strip() for command in COMMANDS[:2]] == ["make demo", "make test"]


PYTHON = [block for block in BLOCKS if block.language == "python"]


def shown_after(block: Block) -> str:
    """The output block behind a block."""
    return BLOCKS[BLOCKS.index(block) + 1].code


def test_outputs_are_compared() -> None:
    assert is_like("Base 0.63, b\n", "Base 0.64, b")
    assert not is_like("Base 0.63", "Base 0.73")
    assert not is_like("Base 0.63", "TuneUp 0.63")


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: f"line {block.line}")
def test_python_block_runs_alone(
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    block.execute("README.md", {"__name__": "__main__"})
    assert is_like(capsys.readouterr().out, shown_after(block))


def test_readme_shows_python_and_names_that_exist() -> None:
    assert PYTHON
    for module, name in re.findall(r"`from (tuneup[\w.]*) import (\w+)`", readme()):
        assert hasattr(importlib.import_module(module), name)
    for name in re.findall(r"`tuneup\.(\w+)", readme()):
        # A room is an attribute once somebody has imported it.
        assert hasattr(tuneup, name) or importlib.import_module(f"tuneup.{name}")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the repository; one for all, as commands build on each other."""
    return like_a_clone(tmp_path_factory.mktemp("clone"))


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command: str, clone: Path) -> None:
    program, *arguments = command.split()
    if program == "make":
        target = re.compile(rf"^{re.escape(arguments[0])}:", re.MULTILINE)
        assert target.search((ROOT / "Makefile").read_text()), f"no target {arguments[0]}"
        return
    assert program in {"tuneup", "python"}, f"nothing here checks `{command}`"
    printed = run_command(command, clone)
    if arguments[0] == "predict":
        (block,) = (each for each in BLOCKS if command in each.code)
        assert is_like(printed, shown_after(block))


def test_its_numbers_are_those_of_the_studies() -> None:
    studies = (ROOT / "docs" / "results" / "studies.md").read_text()
    base, _, result = (
        re.findall(r"\d+\.\d", line)
        for line in studies[studies.index("## A real cold start") :].splitlines()
        if line.startswith(("| base |", "| stage-2 |", "| tuneup-balanced |"))
    )
    text = " ".join(readme().split())
    assert f"Base has {base[3]} %" in text
    assert f"TuneUp {result[3]} %; as they arrived {base[0]} and {result[0]} %" in text
    assert f"{base[4]} % with Base, {result[4]} % with TuneUp" in text


def test_blocks_are_found() -> None:
    text = (
        "a\n```python\nx = 1\n```\n<!-- no-run: needs a GPU -->\n```bash\nnvidia-smi\n```\n"
        "```console\n$ tuneup demo \\\n    --seed 1\nfine\n```\n```\nplain\n```\n"
    )
    found = list(blocks(text))
    assert [(block.language, block.line) for block in found] == [
        ("python", 2),
        ("console", 9),
        ("", 14),
    ]
    assert found[1].commands() == ["tuneup demo      --seed 1"]


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements() -> list[Requirement]:
    project = pyproject()
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["dev"], *extras["docs"]]
    return [Requirement(line) for line in lines]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    matches = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines if line[:1] != "#"]
    assert all(matches), "constraints.txt: each line is `name==version`, without a local label"
    return {canonicalize_name(match[1]): match[2] for match in matches}


def test_versions_agree() -> None:
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert pyproject()["version"] == tuneup.__version__ == citation[1]


def test_pins_satisfy_the_ranges() -> None:
    for requirement in requirements():
        version = pins()[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{requirement} excludes {version}"
    assert pins()["torch"] == "2.13.0"


def closure(wanted: Iterable[Requirement]) -> set[str]:
    """The names of all installed packages that the wanted ones need, directly or not."""
    todo, seen = list(wanted), set()
    while todo:
        requirement = todo.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        for line in importlib.metadata.requires(requirement.name) or []:
            needed = Requirement(line)
            extras = requirement.extras or {""}
            if not needed.marker or any(needed.marker.evaluate({"extra": e}) for e in extras):
                todo.append(needed)
    return {name for name, _ in seen}


def test_everything_installed_is_pinned() -> None:
    # Which GPU libraries torch brings depends on its build.
    needed = {name for name in closure(requirements()) if not name.startswith(("nvidia", "cuda"))}
    assert needed - {"triton"} - pins().keys() == set()


def test_the_diff_is_that_of_the_examples() -> None:
    """Line by line what one script has and the other has not, docstrings aside."""
    shown = next(block for block in BLOCKS if block.language == "diff").code.splitlines()
    plain, tuned = (
        (ROOT / "examples" / f"plain_links{end}.py").read_text().split('"""')[2].splitlines()
        for end in ("", "_tuneup")
    )
    found = [line for line in difflib.ndiff(plain, tuned) if line[:2] in ("+ ", "- ")]
    assert sorted(line[0] + line[2:] for line in found) == sorted(shown)


def test_its_numbers_are_those_of_the_examples() -> None:
    for end in ("", "_tuneup"):
        said = (ROOT / "examples" / f"plain_links{end}.py").read_text().splitlines()[2]
        assert all(number in readme() for number in re.findall(r"0\.\d{3}", said))
