"""The saved model and its answers, for nodes that it knows and nodes that have just arrived."""

from .answers import ClassAnswer, ClassAnswers, RankingAnswer, RankingAnswers
from .arrivals import FeatureReader, OnUnknown
from .predictor import Predictor
from .request import ask, ask_new

__all__ = [
    "ClassAnswer",
    "ClassAnswers",
    "FeatureReader",
    "OnUnknown",
    "Predictor",
    "RankingAnswer",
    "RankingAnswers",
    "ask",
    "ask_new",
]
