"""The task of the folder's tests, and runs on it, whole and broken off."""

import pytest

from tests.train.broken_runs import STAGES, Stop, stop_at
from tests.train.toy import small_encoder, small_task
from tuneup.train import Checkpoints, train


@pytest.fixture(scope="module")
def task():
    return small_task()


@pytest.fixture(scope="module")
def whole(task):
    return train(small_encoder(), task, STAGES)


@pytest.fixture
def broken_off(task, tmp_path):
    """A folder whose run ended in the middle of stage 2."""
    with pytest.raises(Stop):
        train(
            small_encoder(),
            task,
            STAGES,
            checkpoints=Checkpoints(tmp_path, 2),
            callback=stop_at(2, 3),
        )
    return tmp_path
