"""A small store of results, for whatever shows some."""

import pytest

from tests.bench.toys import rows_of_pairs, toy
from tuneup.bench import Store
from tuneup.bench.runner import work


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """Three methods with three seeds under the name of dblp, and a recommender as gowalla."""
    store = Store(tmp_path_factory.mktemp("recorded") / "results")
    suites = [
        toy(dataset="dblp", architecture="gcn", methods=("base", "dropedge", "tuneup"), seeds=3),
        rows_of_pairs(),
    ]
    work(suites, store, store.folder.parent / "cache", lambda words: None)
    return store
