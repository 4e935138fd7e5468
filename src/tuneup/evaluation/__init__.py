"""What the scores say: tail and head, per-degree curves, intervals and paired tests."""

from tuneup.evaluation.classes import ClassGroup, ClassReport, ClassRow
from tuneup.evaluation.degrees import (
    TAIL_DEGREE,
    DegreeBin,
    GroupMean,
    degree_bins,
    degree_curve,
    degree_curve_over_seeds,
    degree_groups,
    group_means,
    head_tail,
    merge_sparse_bins,
    split_by_degree,
)
from tuneup.evaluation.edge_settings import (
    LinkSetting,
    RecommendationSetting,
    link_settings,
    recommendation_settings,
)
from tuneup.evaluation.floors import (
    Floor,
    co_occurrence,
    link_floors,
    node_floors,
    popularity,
    random_recall,
    recommendation_floors,
)
from tuneup.evaluation.settings import Setting, evaluate, node_settings
from tuneup.evaluation.statistics import (
    MISSING,
    Gain,
    Interval,
    MeanStd,
    bootstrap_mean,
    over_seeds,
    paired_gain,
)

__all__ = [
    "MISSING",
    "TAIL_DEGREE",
    "ClassGroup",
    "ClassReport",
    "ClassRow",
    "DegreeBin",
    "Floor",
    "Gain",
    "GroupMean",
    "Interval",
    "LinkSetting",
    "MeanStd",
    "RecommendationSetting",
    "Setting",
    "bootstrap_mean",
    "co_occurrence",
    "degree_bins",
    "degree_curve",
    "degree_curve_over_seeds",
    "degree_groups",
    "evaluate",
    "group_means",
    "head_tail",
    "link_floors",
    "link_settings",
    "merge_sparse_bins",
    "node_floors",
    "node_settings",
    "over_seeds",
    "paired_gain",
    "popularity",
    "random_recall",
    "recommendation_floors",
    "recommendation_settings",
    "split_by_degree",
]
