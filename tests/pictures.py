"""Pictures that are kept beside what draws them."""

from pathlib import Path

import numpy as np
from matplotlib.image import imread


def check_same_picture(kept: Path, drawn: Path, how: str) -> None:
    """Up to other processors' rounding of what is drawn; ``how`` says how to draw it again."""
    one, other = imread(kept), imread(drawn)
    assert one.shape == other.shape, f"draw {kept.name} again: {how}"
    coloured = np.maximum(*(np.ptp(image[..., :3], axis=2) for image in (one, other))) > 0.1
    assert np.abs(one - other)[coloured].mean() < 0.08, f"the curves differ: {how}"
