"""The model card: what a model is and is not good for, in words that need no expert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DOES = {
    "node-classification": "says which class a node belongs to, with a probability for each class",
    "link-prediction": "ranks the nodes that a node is most likely to be linked to",
    "recommendation": "ranks the items that a user is most likely to want next",
}
_CALLS = {
    "node-classification": ("predict", "predict_new", "(x, neighbours=[[...]])"),
    "link-prediction": ("links", "links_new", "(x, neighbours=[[...]], k=10)"),
    "recommendation": ("recommend", "recommend_new", "([[...items...]], k=10)"),
}
_GROUPS = ("overall", "tail", "head")


def model_card(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """A page of Markdown."""
    parts = [
        f"# {config['name']}",
        f"This model {_DOES[config['task']]}. It was trained with tuneup {config['tuneup']}.",
        "## What it was trained on",
        _trained_on(config),
        "## How good it is",
        _scores(metrics),
        "## Limits",
        _limits(config),
        "## How to use it",
        _usage(config),
    ]
    return "\n\n".join(parts) + "\n"


def _trained_on(config: Mapping[str, Any]) -> str:
    graph, model = config["graph"], config["model"]
    kind = "undirected" if graph["undirected"] else "directed"
    if config["task"] == "recommendation":
        sizes = f"{model['users']:,} users, {model['items']:,} items"
        return f"{sizes} and {graph['edges']:,} pairs of a user and an item. {_architecture(model)}"
    sizes = f"{graph['nodes']:,} nodes with {graph['features']:,} features each"
    if _learns(config):
        width = model["encoder"]["in_channels"]
        sizes = f"{graph['nodes']:,} nodes without features, for each of which {width:,} numbers "
        sizes += "were learned,"
    text = f"{sizes} and {graph['edges']:,} {kind} edges. {_architecture(model)}"
    if config["labels"]:
        text += f" Classes: {', '.join(map(str, config['labels']))}."
    return text


def _learns(config: Mapping[str, Any]) -> bool:
    """Whether nodes enter with what was learned for them, not with features."""
    return config["model"].get("known") is not None


def _architecture(model: Mapping[str, Any]) -> str:
    encoder = model["encoder"]
    if encoder is None:
        return f"The model is LightGCN with {model['layers']} layers."
    return f"The model is {encoder['architecture']} with {encoder['num_layers']} layers."


def _scores(metrics: Mapping[str, Any]) -> str:
    """The overall, tail and head scores if given, then all other numbers."""
    numbers = {
        name: value
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if not numbers:
        return "No scores were recorded when it was saved: measure before you rely on it."
    first = [name for name in _GROUPS if name in numbers]
    names = [*first, *sorted(set(numbers) - set(first))]
    lines = [f"| {name} | {numbers[name]:.4g} |" for name in names]
    heading = metrics["metric"] if isinstance(metrics.get("metric"), str) else "score"
    parts = ["\n".join([f"| {heading} | value |", "| :-- | --: |", *lines])]
    if first[1:]:
        parts.append("Tail nodes are those with few edges, head nodes those with many.")
    floors = metrics.get("floors")
    if isinstance(floors, Mapping) and floors:
        told = ", ".join(f"{name} reaches {value:.4g}" for name, value in floors.items())
        parts.append(f"To compare with, over all nodes: {told}.")
    return "\n\n".join(parts)


def _limits(config: Mapping[str, Any]) -> str:
    lines = [
        "It has seen one graph. On data of another kind its answers mean nothing, and it will not "
        "say so.",
        "Every answer carries the node's degree. Answers for nodes with few edges, and most of all "
        "for those with none, are less certain than the scores above suggest.",
        _calibration(config),
    ]
    if config["task"] == "recommendation":
        lines.append(
            "A new user enters as the average user with the items that are given. A new item "
            "cannot be recommended before the model is trained again."
        )
    elif _learns(config):
        lines.append(
            "A new node enters as the average node with the edges that are given; of one without "
            "any edge nothing is known."
        )
    if config["task"] == "link-prediction":
        lines.append("Candidates are the nodes it was saved with, as they stood then.")
    return "\n".join(f"* {line}" for line in lines)


def _calibration(config: Mapping[str, Any]) -> str:
    temperature = config.get("temperature")
    if temperature is None:
        return (
            "Scores and probabilities are not calibrated: they order answers, they are no chances."
        )
    return (
        "Probabilities are calibrated on the validation nodes, by a temperature of "
        f"{temperature['connected']:.3g} for nodes with an edge and {temperature['isolated']:.3g} "
        "for nodes without. They are chances for nodes like these, not for other data."
    )


def _usage(config: Mapping[str, Any]) -> str:
    known, new, arguments = _CALLS[config["task"]]
    arguments = arguments.replace("(x,", "(None,") if _learns(config) else arguments
    lines = [
        "```python",
        "import tuneup",
        "",
        'predictor = tuneup.Predictor.load("this folder")',
        f"predictor.{known}(ids).to_frame()",
        f"predictor.{new}{arguments}.to_frame()  # nodes that are not in the graph",
        "```",
    ]
    command = "or `tuneup predict FOLDER --ids ...` on the command line."
    return "\n".join(lines) + f"\n\n{command} The files are open formats, and nothing is unpickled."
