"""The page at ``/``, in a headless Chromium: asked by keyboard, on a phone, in the dark."""

import json
import os
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from processes import READY, running
from serving_toys import WIDTH, node_ids, save_artefact, small_encoder, small_graph

from tests.report.browser import CHROMIUM, browser

SHOTS = os.environ.get("TUNEUP_SCREENSHOTS")
"""A folder for pictures, to look at them."""


def scores(folder: Path) -> None:
    """Scores by degree, as a training leaves them beside a model."""
    degree = np.arange(200) % 25
    score = ((np.arange(200) * 7 % 10) < 3 + degree // 5).astype(float)
    columns = {"setting": "transductive", "metric": "accuracy", "node": np.arange(200)}
    frame = pl.DataFrame({**columns, "degree": degree, "score": score})
    frame.write_parquet(folder / "scores-tuneup.parquet")


def typed(tab, text: str) -> None:
    tab.send("Input.insertText", text=text)


def press(tab, key: str, code: int) -> None:
    more = {"text": "\r"} if key == "Enter" else {}
    parts = {"key": key, "code": key, "windowsVirtualKeyCode": code}
    tab.send("Input.dispatchKeyEvent", type="keyDown", **parts, **more)
    tab.send("Input.dispatchKeyEvent", type="keyUp", **parts)


def until(tab, expression: str) -> None:
    end = time.monotonic() + READY
    while not tab.js(expression):
        assert time.monotonic() < end, expression
        time.sleep(0.02)
    tab.settle()


def shot(tab, name: str) -> None:
    if SHOTS:
        tab.screenshot(Path(SHOTS) / f"{name}.png")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_page_answers_by_keyboard_on_a_phone_and_in_the_dark(tmp_path):
    folder = save_artefact(
        tmp_path / "model",
        small_encoder("gcn"),
        small_graph(),
        ids=node_ids(),
        labels=["amber", "blue", "coral", "dune", "emerald"],
        name="toy packages",
    )
    scores(folder)
    with running(folder) as server, browser() as tab:
        for width, dark in ((1200, False), (390, True)):
            mobile = width < 600
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile}
            tab.send("Emulation.setDeviceMetricsOverride", **size)
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            tab.send("Emulation.setEmulatedMedia", features=[scheme])
            tab.requested.clear()
            tab.send("Page.navigate", url=server.url)
            until(tab, "typeof model !== 'undefined' && model !== null")
            tab.js("document.getElementById('id').focus()")
            typed(tab, "n01")
            press(tab, "Enter", 13)
            until(tab, "!document.getElementById('answer').hidden")
            found = server.client.predict(["n01"])[0]
            text = tab.js("document.getElementById('result').innerText")
            assert f"{found.label} · {100 * found.probability:.1f}\u00a0%" in text
            words = tab.js("document.getElementById('trust').innerText")
            assert f"It has {found.degree} edges. On the " in words
            assert tab.js("document.querySelectorAll('#drawing g.node').length") == found.degree
            tab.js("document.getElementById('each').focus()")
            press(tab, "Enter", 13)
            rows = "document.querySelectorAll('#table tbody tr').length"
            until(tab, f"{rows} === {found.degree}")
            tab.js("document.getElementById('add').focus()")
            typed(tab, "n40")
            press(tab, "Enter", 13)
            until(tab, f"{rows} === {found.degree} + 1")
            wide = tab.js("document.documentElement.scrollWidth")
            assert wide <= width
            ground = tab.js("getComputedStyle(document.body).backgroundColor")
            assert (ground == "rgb(20, 23, 26)") is dark
            shot(tab, f"known-{width}")
            tab.js("document.getElementById('tab-new').click()")
            tab.js("document.getElementById('features').focus()")
            typed(tab, json.dumps([0.5] * WIDTH))
            tab.js("document.getElementById('neighbours').focus()")
            typed(tab, "n01, n02")
            tab.js("document.querySelector('#new button').click()")
            until(tab, "document.getElementById('result').innerText.includes('The new node')")
            (new,) = server.client.predict_new([[0.5] * WIDTH], [["n01", "n02"]])
            assert f"{100 * new.probability:.1f}\u00a0%" in tab.js(
                "document.getElementById('result').innerText"
            )
            shot(tab, f"new-{width}")
            assert not tab.problems
            assert all(url.startswith(server.url) for url in tab.requested)
            tab.js("document.getElementById('tab-known').click()")
            tab.js("document.getElementById('id').value = '<b>nobody</b>'")
            tab.js("document.querySelector('#known button').click()")
            until(tab, "document.getElementById('error').innerText.includes('knows no node')")
            assert tab.js("document.querySelector('#error b')") is None
            tab.problems.clear()  # the browser itself notes the refusal
