"""The saved model and its answers, for nodes that it knows and nodes that have just arrived."""

from .answers import ClassAnswer, Classes, RankingAnswer, Rankings
from .artefact import Artefact
from .asking import ask, ask_new
from .loading import load_artefact
from .plan import Plan, PlanReader
from .predictor import Predictor
from .saving import save_artefact

__all__ = [
    "Artefact",
    "ClassAnswer",
    "Classes",
    "Plan",
    "PlanReader",
    "Predictor",
    "RankingAnswer",
    "Rankings",
    "ask",
    "ask_new",
    "load_artefact",
    "save_artefact",
]
