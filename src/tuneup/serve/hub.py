"""Saved models on a model hub, in the layout that it shows; through the extra ``hub``.

The functions are methods of :class:`~tuneup.serve.Predictor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tuneup.runtime import require

from .arrivals import PlanReader
from .artefact import check_key

if TYPE_CHECKING:
    from .predictor import Predictor


def save_pretrained(
    predictor: Predictor,
    folder: Path | str,
    *,
    license: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    factory: Callable[..., nn.Module] | None = None,
    overwrite: bool = False,
    sign_key: bytes | None = None,
) -> Path:
    """Write a folder as :meth:`save` does, in the layout of a model hub.

    The weights are called ``model.safetensors``, and the model card begins with what a hub reads:
    library, task, tags and license.

    Args:
        predictor: the model.
        folder: must not exist yet, or be empty.
        license: of the model, as the hub names it: "mit".
        arguments: as for :meth:`save`.
        factory: as for :meth:`save`.
        overwrite: as for :meth:`save`.
        sign_key: as for :meth:`save`.
    """
    check_key("sign_key", sign_key)
    tags = ["tuneup", "graph-neural-network", predictor.task]
    front = {"library_name": "tuneup", "pipeline_tag": "graph-ml", "tags": tags}
    artefact = predictor.described(arguments, factory)
    given = {} if license is None else {"license": license}
    return artefact.save(folder, overwrite=overwrite, sign_key=sign_key, hub={**front, **given})


def push_to_hub(
    predictor: Predictor,
    name: str,
    *,
    license: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    factory: Callable[..., nn.Module] | None = None,
    sign_key: bytes | None = None,
    private: bool | None = None,
    token: str | None = None,
) -> str:
    """Upload what :meth:`save_pretrained` writes; the answer is the address of the commit.

    Args:
        predictor: the model.
        name: of the repository, ``owner/name``; it is created if it does not exist.
        license: of the model, as the hub names it: "mit".
        arguments: as for :meth:`save`.
        factory: as for :meth:`save`.
        sign_key: as for :meth:`save`.
        private: whether a repository that is created is not public.
        token: of the hub; by default the one of its own login.
    """
    hub = require("huggingface_hub", "hub")
    with TemporaryDirectory() as place:
        folder = save_pretrained(
            predictor,
            Path(place) / "model",
            license=license,
            arguments=arguments,
            factory=factory,
            sign_key=sign_key,
        )
        api = hub.HfApi(token=token)
        api.create_repo(name, private=private, exist_ok=True)
        words = "Upload a model of tuneup"
        commit = api.upload_folder(repo_id=name, folder_path=folder, commit_message=words)
    return str(commit.commit_url)


def from_pretrained(
    cls: type[Predictor],
    name: Path | str,
    device: torch.device | str = "cpu",
    *,
    read_plan: PlanReader | None = None,
    model: nn.Module | None = None,
    allow: Sequence[str] = (),
    verify_key: bytes | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> Predictor:
    """The model in a folder, or in a repository of a model hub; verified as by :meth:`load`.

    What was downloaded is kept, and used where the hub cannot be reached.

    Args:
        cls: the class of the answer.
        name: of the folder, or of the repository: ``owner/name``.
        device: as for :meth:`load`.
        read_plan: as for :meth:`load`.
        model: as for :meth:`load`.
        allow: as for :meth:`load`.
        verify_key: as for :meth:`load`.
        revision: a branch, a tag or a commit of the repository.
        token: of the hub; by default the one of its own login.
    """
    if not Path(name).is_dir():
        hub = require("huggingface_hub", "hub")
        name = hub.snapshot_download(str(name), revision=revision, token=token)
    return cls.load(
        name, device, read_plan=read_plan, model=model, allow=allow, verify_key=verify_key
    )
