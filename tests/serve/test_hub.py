"""Models in the layout of a model hub, without a network: a local server takes what is uploaded."""

from __future__ import annotations

import base64
import json
import shutil
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import torch
from huggingface_hub import ModelCard, constants
from serving_toys import module, node_ids, recommender, small_encoder, small_graph, small_pairs

from tuneup.errors import ArtefactError, InputError
from tuneup.serve import Predictor

NEW = torch.randn(1, 12, generator=torch.Generator().manual_seed(1))
COMMIT = "a" * 40
UPLOADED: dict[str, bytes] = {}
CREATED: list[str] = []


def test_a_folder_has_the_layout_of_a_hub(tmp_path):
    predictor = Predictor(small_encoder(), small_graph(), ids=node_ids())
    place = predictor.save_pretrained(tmp_path / "m", license="mit", sign_key=b"k" * 16)
    assert {"README.md", "config.json", "model.safetensors"} <= {
        each.name for each in place.iterdir()
    }
    assert not (place / "weights.safetensors").exists()
    card = ModelCard.load(place / "README.md")
    assert (card.data.library_name, card.data.license) == ("tuneup", "mit")
    assert card.data.pipeline_tag == "graph-ml"
    assert "node-classification" in card.data.tags
    assert card.text.lstrip().startswith("# toy")
    loaded = Predictor.from_pretrained(place, verify_key=b"k" * 16)
    assert torch.equal(loaded.outputs_new(NEW, [["n01"]]), predictor.outputs_new(NEW, [["n01"]]))
    (place / "model.safetensors").write_bytes(b"")
    with pytest.raises(ArtefactError, match=r"model\.safetensors is damaged"):
        Predictor.load(place)
    shop = Predictor(recommender(), small_pairs())
    again = Predictor.load(shop.save_pretrained(tmp_path / "shop"))
    assert again.recommend(range(20)).to_frame().equals(shop.recommend(range(20)).to_frame())


def test_a_repository_is_read_from_the_copy_that_is_kept(tmp_path, monkeypatch):
    predictor = Predictor(module(), small_graph())
    folder = predictor.save_pretrained(tmp_path / "m")
    kept = tmp_path / "cache" / "models--owner--name"
    shutil.copytree(folder, kept / "snapshots" / COMMIT)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    loaded = Predictor.from_pretrained("owner/name", model=module())
    assert torch.equal(loaded.outputs(), predictor.outputs())
    with pytest.raises(ArtefactError, match="only if you allow it"):
        Predictor.from_pretrained("owner/name", revision="main")


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as takes a commit: files arrive in its body."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = {}
        if self.path == "/api/repos/create":
            CREATED.append(json.loads(body)["name"])
            answer = {"url": f"http://{self.headers['Host']}/owner/name"}
        elif "/preupload/" in self.path:
            names = [each["path"] for each in json.loads(body)["files"]]
            answer["files"] = [
                {"path": name, "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                for name in names
            ]
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    UPLOADED[line["value"]["path"]] = content
            answer = {"commitUrl": f"http://{self.headers['Host']}/owner/name/commit/{COMMIT}"}
            answer |= {"commitOid": COMMIT, "hookOutput": ""}
        self.reply(answer)

    def do_GET(self):
        self.reply({"id": "owner/name", "sha": COMMIT, "siblings": []})

    def reply(self, answer):
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words):
        """Quiet."""


@pytest.fixture
def server(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        yield address
        server.shutdown()


def test_what_is_uploaded_is_the_model(server, tmp_path):
    predictor = Predictor(small_encoder(), small_graph(), ids=node_ids())
    url = predictor.push_to_hub("owner/name", license="mit", token="hf_" + "x" * 34)
    assert url.endswith(f"/owner/name/commit/{COMMIT}")
    assert CREATED == ["name"]
    for name, content in UPLOADED.items():
        (tmp_path / name).write_bytes(content)
    assert torch.equal(Predictor.load(tmp_path).outputs(), predictor.outputs())


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"pip install 'tuneup-gnn\[hub\]'"):
        Predictor.from_pretrained("owner/name")
