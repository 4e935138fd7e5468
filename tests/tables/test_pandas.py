"""Frames of pandas are read as those of polars are."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import tuneup
from tests.serve.serving_toys import small_graph
from tuneup.errors import InputError
from tuneup.tables.reading import Table, frame_of

DAY = datetime.datetime(2026, 1, 2)


def test_every_type_of_column_is_converted():
    frame = pd.DataFrame(
        {
            "whole": [1, 2],
            "number": [0.5, np.nan],
            "true": [True, False],
            "text": ["a", None],
            "kind": pd.Categorical(["b", "c"]),
            "nullable": pd.array([1, pd.NA], dtype="Int64"),
            "time": [pd.Timestamp(DAY), pd.NaT],
            7: np.array([1, 2], dtype=np.int32),
        },
        index=["x", "y"],
    )
    found = frame_of(frame)
    assert found.to_dict(as_series=False) == {
        "whole": [1, 2],
        "number": [0.5, None],
        "true": [True, False],
        "text": ["a", None],
        "kind": ["b", "c"],
        "nullable": [1, None],
        "time": [DAY, None],
        "7": [1, 2],
    }
    assert found["number"].dtype == pl.Float64
    assert frame_of(found) is found
    assert Table.of(frame).frame.equals(found)
    assert frame_of(frame.iloc[:0]).height == 0


def test_what_is_no_frame_is_named():
    with pytest.raises(InputError, match="got dict; expected a frame of polars or pandas"):
        frame_of({"a": [1]})
    with pytest.raises(InputError, match="column 'a': values must be of one type"):
        frame_of(pd.DataFrame({"a": [1, "x"]}, dtype=object))


def test_a_predictor_takes_features_and_ids_from_pandas():
    graph = small_graph()
    torch.manual_seed(0)
    model = tuneup.Encoder(graph.num_features, 3, width=8)
    ids = pd.Series([f"n{k}" for k in range(graph.num_nodes)])
    predictor = tuneup.Predictor(model, graph, ids=ids)
    x = graph.x[:2].numpy()
    neighbours = [["n0"], ["n1", "n2"]]
    expected = predictor.predict_new(x, neighbours).to_frame()
    for frame in (pd.DataFrame(x), pl.DataFrame(x)):
        assert predictor.predict_new(frame, neighbours).to_frame().equals(expected)
    assert predictor.predict(ids[:3]).to_frame()["id"].to_list() == ["n0", "n1", "n2"]
    with pytest.raises(InputError, match=r"column .1.*no number here"):
        predictor.predict_new(pd.DataFrame(np.where(x == x[0, 1], np.nan, x)), neighbours)
