"""What is refused before a run begins: stages and modules that cannot go together."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn
from torch.nn.parameter import is_lazy

from tuneup.curriculum import Curriculum, full
from tuneup.errors import InputError

from .judging import judged


def check_run(curriculum: Curriculum, modules: Mapping[str, nn.Module]) -> None:
    """Refuse a curriculum that these modules cannot be trained by."""
    if not curriculum:
        raise InputError("A curriculum needs at least one stage.")
    for index, stage in enumerate(curriculum):
        for name in stage.trains:
            if name not in modules:
                known = ", ".join(modules)
                raise InputError(f"Stage {index + 1} trains '{name}'; there are only: {known}.")
        if stage.pseudo_labels and not judged(curriculum, index):
            raise InputError(
                f"Stage {index + 1} cannot use pseudo-labels: no stage before it trains a "
                "model that the task validates."
            )
    thinned = any(view != full for stage in curriculum for view in stage.views)
    for name, module in modules.items():
        _check_module(name, module, thinned)
    for name in dict.fromkeys(name for stage in curriculum for name in stage.trains):
        if not any(p.requires_grad for p in modules[name].parameters()):
            raise InputError(f"The {name} has no parameter that could be trained.")


def _check_module(name: str, module: nn.Module, thinned: bool) -> None:
    if not isinstance(module, nn.Module):
        raise InputError(f"The {name} must be a torch.nn.Module; got {module!r}.")
    if any(map(is_lazy, module.parameters())):
        raise InputError(
            f"The {name} has parameters of unknown shape: call it once on the data first."
        )
    if thinned and any(getattr(part, "cached", False) is True for part in module.modules()):
        raise InputError(
            f"A layer of the {name} keeps the first graph it sees (cached=True), and would "
            "never notice a dropped edge: make it with cached=False."
        )
