"""Every format, however it is named and packed, gives the same rows."""

from __future__ import annotations

import gzip

import polars as pl
import pytest

from tuneup.errors import InputError
from tuneup.tables import ReadOptions, open_table
from tuneup.tables.columns import Notes

FRAME = pl.DataFrame({"id": ["a", "b", "c"], "n": [1, 2, 3], "x": [0.5, None, 2.5]})


def write(path, frame=FRAME):
    kind = path.suffix
    if kind == ".gz":
        path.write_bytes(gzip.compress(frame.write_csv().encode()))
    elif kind in (".csv", ".txt"):
        frame.write_csv(path)
    elif kind in (".tsv", ".tab"):
        frame.write_csv(path, separator="\t")
    elif kind in (".parquet", ".pq"):
        frame.write_parquet(path)
    elif kind in (".jsonl", ".ndjson"):
        frame.write_ndjson(path)
    elif kind == ".ipc":
        frame.write_ipc_stream(path)
    else:
        frame.write_ipc(path)


@pytest.mark.parametrize(
    "suffix",
    ["csv", "csv.gz", "tsv", "tab", "parquet", "pq", "jsonl", "ndjson", "arrow", "feather", "ipc"],
)
def test_every_format(suffix, tmp_path):
    path = tmp_path / f"t.{suffix}"
    write(path)
    files = open_table([str(path)])
    assert files.columns == ("id", "n", "x")
    table = files.read({"id"})
    assert table.frame.equals(FRAME)
    assert files.num_bytes == path.stat().st_size


def test_upper_case_suffix_and_format_given(tmp_path):
    write(tmp_path / "t.csv")
    (tmp_path / "t.csv").rename(tmp_path / "T.CSV")
    assert open_table([str(tmp_path / "T.CSV")]).read().frame.equals(FRAME)
    (tmp_path / "T.CSV").rename(tmp_path / "t.data")
    read = open_table([str(tmp_path / "t.data")], ReadOptions(format="csv")).read()
    assert read.frame.equals(FRAME)


@pytest.mark.parametrize("given", ["part-*.parquet", ".", "part-[12].parquet"])
def test_patterns_and_folders_are_one_table(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "part-1.parquet", FRAME.head(1))
    write(tmp_path / "part-2.parquet", FRAME.tail(2).select("x", "n", "id"))
    (tmp_path / "notes.md").write_text("not a table")
    table = open_table([given]).read()
    assert table.frame.equals(FRAME)
    assert table.where(2, "x") == "part-2.parquet, row 2, column 'x'"
    assert table.where(0) == "part-1.parquet, row 1"


def test_a_name_with_brackets_is_a_name(tmp_path):
    write(tmp_path / "a[1].csv")
    assert open_table([str(tmp_path / "a[1].csv")]).read().frame.equals(FRAME)


def test_rows_are_named_by_file_and_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for suffix in ("csv", "jsonl", "arrow"):
        write(tmp_path / f"t.{suffix}")
    assert open_table(["t.csv"]).read().where(1, "x") == "t.csv, row 2 (line 3), column 'x'"
    assert open_table(["t.jsonl"]).read().where(1) == "t.jsonl, row 2 (line 2)"
    assert open_table(["t.arrow"]).read().where(1) == "t.arrow, row 2"


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (b"\xef\xbb\xbfid,n,x\na,1,0.5\nb,2,\nc,3,2.5\n", ReadOptions()),
        (b"id,n,x\r\na,1,0.5\r\nb,2,\r\nc,3,2.5\r\n", ReadOptions()),
        (b"id,n,x\na,1,0.5\nb,2,\nc,3,2.5", ReadOptions()),
        (b"id,n,x\na,1,0.5\nb,2,\nc,3,2.5\n\n\n", ReadOptions()),
        (b'"id","n","x"\n"a",1,0.5\n"b",2,\n"c",3,2.5\n', ReadOptions()),
        (b"id;n;x\na;1;0.5\nb;2;\nc;3;2.5\n", ReadOptions(delimiter=";")),
        (b"id n x\na 1 0.5\nb 2 -\nc 3 2.5\n", ReadOptions(delimiter="space", missing=("-",))),
        (b"id,n,x\na,1,0.5\nb,2,NaN\nc,3,2.5\n", ReadOptions(nan_is_missing=True)),
        (b"id,n,x\na,1,0.5\nb,2,nan\nc,3,2.5\n", ReadOptions(nan_is_missing=True)),
        ("id,n,x\na,1,0.5\nb,2,\nc,3,2.5\n".encode("utf-16"), ReadOptions(encoding="utf-16")),
        ("id,n,x\na,1,0.5\nb,2,\nc,3,2.5\n".encode("utf-16"), ReadOptions()),
    ],
)
def test_the_ways_of_writing_csv(data, options, tmp_path):
    (tmp_path / "t.csv").write_bytes(data)
    assert open_table([str(tmp_path / "t.csv")], options).read({"id"}).frame.equals(FRAME)


def test_latin_1_where_it_is_asked_for(tmp_path):
    (tmp_path / "t.csv").write_bytes("id,n\ncafé,1\n".encode("latin-1"))
    options = ReadOptions(encoding="latin-1")
    assert open_table([str(tmp_path / "t.csv")], options).read().frame["id"].to_list() == ["café"]


def test_quoted_delimiters_and_line_ends_are_text(tmp_path):
    (tmp_path / "t.csv").write_text('id,n,x\n"a,b",1,\n"two\nlines",2,1.5\n"say ""so""",3,\n')
    frame = open_table([str(tmp_path / "t.csv")]).read({"id"}).frame
    assert frame["id"].to_list() == ["a,b", "two\nlines", 'say "so"']
    assert frame["x"].to_list() == [None, 1.5, None]


def test_a_type_that_changes_far_down_is_read_again(tmp_path):
    rows = "".join(f"{i},{i}\n" for i in range(3000))
    (tmp_path / "t.csv").write_text("id,x\n" + rows + "x9,0.5\n")
    frame = open_table([str(tmp_path / "t.csv")]).read({"id"}).frame
    assert frame["id"][-1] == "x9"
    assert frame["x"].dtype == pl.Float64
    assert frame["x"][-1] == 0.5


def test_ids_of_csv_stay_as_they_are_written(tmp_path):
    (tmp_path / "t.csv").write_text("id,n\n007,1\n7,2\n99999999999999999999,3\n")
    ids = open_table([str(tmp_path / "t.csv")]).read({"id"}).frame["id"]
    assert ids.to_list() == ["007", "7", "9" * 20]


def test_the_unnamed_column_of_row_numbers_is_left_out(tmp_path):
    (tmp_path / "t.csv").write_text(",id,n\n0,a,1\n1,b,2\n")
    assert open_table([str(tmp_path / "t.csv")]).read().frame.columns == ["id", "n"]


def test_options_check_themselves():
    assert ReadOptions(delimiter="tab").delimiter == "\t"
    for wrong in ("", "ab", '"', "\n", "€"):
        with pytest.raises(InputError, match="delimiter"):
            ReadOptions(delimiter=wrong)


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("before", [0, 20_000])
def test_windows_1252_is_recognised_and_told(before, gzipped, tmp_path):
    rows = "".join(f"n{i},1\n" for i in range(before))
    data = f"id,n\n{rows}Zoë “café” €,2\n".encode("cp1252")
    path = tmp_path / ("t.csv.gz" if gzipped else "t.csv")
    path.write_bytes(gzip.compress(data) if gzipped else data)
    notes = Notes()
    frame = open_table([str(path)], notes=notes).read().frame
    assert frame["id"][-1] == "Zoë “café” €"
    assert frame["n"][-1] == 2
    assert notes == [f"{path}: not UTF-8; read as Windows-1252 (--encoding)."]


@pytest.mark.parametrize("data", [b"id,n\nab\x81,1\n", b"id,n\nab\xe9,1\n"])
def test_an_encoding_that_is_given_is_no_guess(data, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    options = ReadOptions(encoding="utf-8") if b"\xe9" in data else ReadOptions()
    with pytest.raises(InputError, match="line 2: not valid UTF-8") as refused:
        open_table([str(path)], options).read()
    assert refused.value.fix == ("--encoding", "latin-1")
