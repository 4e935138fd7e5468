"""The LightGCN text layout, on small files of exactly that layout and on gowalla itself."""

import os

import pytest

from tuneup.data import Interactions, load_dataset, read_item_lists, split_interactions
from tuneup.errors import DownloadError, InputError


def test_reads_lines_of_a_user_and_its_items(tmp_path):
    first, second = tmp_path / "train.txt", tmp_path / "test.txt"
    first.write_text("0 3 1\n2 0\n1\n")  # user 1 has no item here
    second.write_text("0 1 4\n\n")  # (0, 1) again
    found = read_item_lists([first, second], "tiny")
    assert (found.num_users, found.num_items) == (3, 5)
    pairs = list(zip(found.user.tolist(), found.item.tolist(), strict=True))
    assert pairs == [(0, 1), (0, 3), (0, 4), (2, 0)]


def test_malformed_files_are_refused_by_line(tmp_path):
    for text, words in [
        ("0 1\n1 x\n", "line 2: expected 'user item item ...'"),
        ("0 1.5\n", "line 1: expected"),
        ("0 -3\n", "line 1: ids count from 0"),
        ("", "no pair of a user and an item"),
        ("4\n", "no pair of a user and an item"),
    ]:
        path = tmp_path / "train.txt"
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            read_item_lists([path], "tiny")


def load_gowalla(root):
    return load_dataset("gowalla", root, fetch=False, published=False)


def test_a_missing_file_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(DownloadError, match=rf"gowalla: no train\.txt in {tmp_path}\. Fetch"):
        load_gowalla(tmp_path)


@pytest.mark.skipif("TUNEUP_DATA" not in os.environ, reason="TUNEUP_DATA is not set")
def test_gowalla_has_the_papers_numbers():
    data = load_dataset("gowalla")
    assert isinstance(data, Interactions)
    assert (data.num_users, data.num_items, len(data)) == (29_858, 40_981, 1_027_370)
    split = split_interactions(data)
    assert len(split.train) / data.num_users == pytest.approx(3.44, abs=0.005)  # Table 1


def test_a_file_that_was_cut_short_is_noticed(tmp_path):
    """Both halves of the set list the same users, so a missing end shows."""
    for cut in ["within a line", "after a line"]:
        for half in ["train", "test"]:
            folder = tmp_path / "gowalla"
            folder.mkdir(exist_ok=True)
            for part in ("train", "test"):
                (folder / f"{part}.txt").write_text("0 1 22\n1 0 33\n2 10 11\n")
            assert len(load_gowalla(tmp_path)) == 6
            path = folder / f"{half}.txt"
            path.write_text("0 1 22\n1 0 3" if cut == "within a line" else "0 1 22\n1 0 33\n")
            with pytest.raises(InputError, match=rf"{half}\.txt.*it was cut short. Copy it again"):
                load_gowalla(tmp_path)
