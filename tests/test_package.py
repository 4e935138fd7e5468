"""The wheel and the source distribution: what they hold, and that the wheel runs alone."""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import tuneup

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The wheel and the source distribution, made without a network."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=200)
    (wheel,), (source,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, source


def test_the_wheel_holds_every_file_of_the_package(built):
    wheel, source = built
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("tuneup/")}
    tracked = subprocess.run(
        ["git", "ls-files", "src/tuneup"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert held == {name.removeprefix("src/") for name in tracked}
    with tarfile.open(source) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/tuneup/__init__.py"} <= names


def test_the_installed_wheel_runs_from_an_empty_folder(built, tmp_path):
    wheel, _ = built
    target = tmp_path / "site"
    install = ["-m", "pip", "install", "-q", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, *install], check=True, timeout=200)
    script = (
        f"import sys, tuneup, tuneup.cli; assert tuneup.__file__.startswith({str(target)!r})\n"
        "sys.argv = ['tuneup', 'methods']; tuneup.cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert "TuneUp" in done.stdout


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == tuneup.__version__
    assert f"version: {tuneup.__version__}" in (ROOT / "CITATION.cff").read_text()
