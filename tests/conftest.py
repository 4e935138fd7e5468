"""What holds for every test."""

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def what_is_imported_stays() -> None:
    """Collecting garbage, as every run of a suite does, skips it.

    Once a module, as much is imported at its first use: a million objects when torch first trains.
    """
    gc.collect()
    gc.freeze()
