import pytest
import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.metrics import correct


def naive_correct(logits: Tensor, y: Tensor) -> list[float]:
    result = []
    for row, label in zip(logits.tolist(), y.tolist(), strict=True):
        best = 0
        for index, value in enumerate(row):
            if value > row[best]:
                best = index
        result.append(float(best == label))
    return result


@pytest.mark.parametrize("seed", range(5))
def test_matches_a_loop_with_many_ties(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, 3, (200, 7), generator=generator).float()
    y = torch.randint(0, 7, (200,), generator=generator)
    result = correct(logits, y)
    assert result.dtype == torch.float32
    assert result.tolist() == naive_correct(logits, y)


def test_masked_classes_and_no_nodes() -> None:
    logits = torch.tensor([[-torch.inf, -3.0], [-2.0, -torch.inf]])
    assert correct(logits, torch.tensor([1, 1])).tolist() == [1.0, 0.0]
    assert correct(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)).shape == (0,)


@pytest.mark.parametrize(
    ("logits", "y", "message"),
    [
        (torch.zeros(3, 2), torch.tensor([0, 1]), r"got \[3, 2\] and \[2\]"),
        (torch.zeros(3), torch.tensor([0, 1, 1]), r"\[n, num_classes\]"),
        (torch.zeros(2, 2), torch.tensor([0.0, 1.0]), "integer class ids"),
        (torch.zeros(2, 2), torch.tensor([0, -1]), "labelled nodes only"),
        (torch.zeros(2, 2), torch.tensor([0, 2]), r"0\.\.1, got values from 0 to 2"),
        (torch.tensor([[torch.nan, 0.0]]), torch.tensor([0]), "NaN"),
    ],
)
def test_refuses_what_would_be_scored_wrongly(logits: Tensor, y: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        correct(logits, y)
