"""What holds for every test."""

import gc


def pytest_collection_finish() -> None:
    """All that was imported stays: collecting garbage, as every run of a suite does, skips it."""
    gc.collect()
    gc.freeze()
