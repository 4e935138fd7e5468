"""A mkdocs hook: a notebook as a page, where the page names it; nothing is executed here.

python -m docs.tools.notebooks            # execute all notebooks and store their outputs
python -m docs.tools.notebooks pyg.ipynb  # one of them
"""

from __future__ import annotations

import base64
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

FOLDER = Path(__file__).parents[1] / "notebooks"
_MARK = re.compile(r"^<!-- notebook: (\S+) -->$", re.MULTILINE)
_CONTROL = re.compile(r"\x1b\[[0-9;]*m")
_TIMEOUT = 280


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Put the cells of a notebook where a page names it."""
    return _MARK.sub(lambda found: as_markdown(FOLDER / found[1]), markdown)


def as_markdown(path: Path) -> str:
    """A link to the notebook, then its cells with their outputs."""
    cells = nbformat.read(path, as_version=4).cells
    title, *rest = (part for cell in cells for part in _parts(cell))
    note = f"[Download this notebook]({path.name}){{ .md-button download }}"
    return "\n\n".join([title, note, *rest])


def _parts(cell: Any) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield f"```python\n{cell.source}\n```"
    for output in cell.outputs:
        yield from _shown(output)


def _shown(output: Any) -> Iterator[str]:
    data = output.get("data", {})
    if "image/png" in data:
        picture = data["image/png"].strip()
        yield f"![What the cell draws](data:image/png;base64,{picture}){{ .on-white }}"
    elif "text/html" in data:
        yield f'<div class="output" markdown="0">{data["text/html"]}</div>'
    else:
        text = output.get("text") or data.get("text/plain", "")
        yield f"```text\n{_CONTROL.sub('', text).rstrip()}\n```"


def execute(path: Path, folder: Path) -> Any:
    """The notebook with the outputs of running all of its cells in a folder."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=_TIMEOUT, resources=where, record_timing=False).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":  # warnings name folders of the machine
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
    return notebook


def smaller(picture: str) -> str:
    """A PNG in base64 with 32 colours: figures look the same and take a quarter of the bytes."""
    from PIL import Image

    found = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(picture))) as whole:
        whole.convert("RGB").quantize(32, kmeans=2).save(found, "PNG", optimize=True)
    return base64.b64encode(found.getvalue()).decode()


def main(names: list[str]) -> None:
    """Execute notebooks and write them with their outputs."""
    from tempfile import TemporaryDirectory

    for path in [FOLDER / name for name in names] or sorted(FOLDER.glob("*.ipynb")):
        with TemporaryDirectory() as folder:
            notebook = execute(path, Path(folder))
        for data in (
            out.get("data", {}) for cell in notebook.cells for out in cell.get("outputs", [])
        ):
            if "image/png" in data:
                data["image/png"] = smaller(data["image/png"])
        notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
        nbformat.write(notebook, path)
        print(f"wrote {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
