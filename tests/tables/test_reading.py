"""Every format, however it is named and packed, gives the same rows."""

from __future__ import annotations

import gzip

import polars as pl
import pytest

from tuneup.errors import InputError
from tuneup.tables import TableRequest, open_table
from tuneup.tables.reading import Notes

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


def read(path, request=None) -> pl.DataFrame:
    """Its rows, with delimited text as numbers where it is."""
    return open_table([str(path)], request).read().typed().frame


def test_every_format(tmp_path):
    suffixes = ("csv", "csv.gz", "tsv", "tab", "parquet", "pq", "jsonl", "ndjson", "arrow")
    for suffix in (*suffixes, "feather", "ipc", "CSV"):
        path = tmp_path / f"t.{suffix}"
        write(path) if suffix != "CSV" else FRAME.write_csv(path)
        assert read(path).equals(FRAME), suffix
        files = open_table([str(path)])
        assert files.columns == ("id", "n", "x")
        assert files.num_bytes == path.stat().st_size
    (tmp_path / "t.CSV").rename(tmp_path / "t.data")
    assert read(tmp_path / "t.data", TableRequest(format="csv")).equals(FRAME)


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
    assert read(tmp_path / "a[1].csv").equals(FRAME)


def test_rows_are_named_by_file_and_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for suffix in ("csv", "jsonl", "arrow"):
        write(tmp_path / f"t.{suffix}")
    assert open_table(["t.csv"]).read().where(1, "x") == "t.csv, row 2 (line 3), column 'x'"
    assert open_table(["t.jsonl"]).read().where(1) == "t.jsonl, row 2 (line 2)"
    assert open_table(["t.arrow"]).read().where(1) == "t.arrow, row 2"


WRITTEN = [
    (b"\xef\xbb\xbfid,n,x\na,1,0.5\nb,2,\nc,3,2.5\n", TableRequest()),
    (b"id,n,x\r\na,1,0.5\r\nb,2,\r\nc,3,2.5\r\n", TableRequest()),
    (b"id,n,x\na,1,0.5\nb,2,\nc,3,2.5", TableRequest()),
    (b"id,n,x\na,1,0.5\nb,2,\nc,3,2.5\n\n\n", TableRequest()),
    (b'"id","n","x"\n"a",1,0.5\n"b",2,\n"c",3,2.5\n', TableRequest()),
    (b"id;n;x\na;1;0.5\nb;2;\nc;3;2.5\n", TableRequest(delimiter=";")),
    (b"id n x\na 1 0.5\nb 2 -\nc 3 2.5\n", TableRequest(delimiter="space", missing=("-",))),
    (b"id,n,x\na,1,0.5\nb,2,NaN\nc,3,2.5\n", TableRequest(nan_is_missing=True)),
    (b"id,n,x\na,1,0.5\nb,2,nan\nc,3,2.5\n", TableRequest(nan_is_missing=True)),
    ("id,n,x\na,1,0.5\nb,2,\nc,3,2.5\n".encode("utf-16"), TableRequest(encoding="utf-16")),
    ("id,n,x\na,1,0.5\nb,2,\nc,3,2.5\n".encode("utf-16"), TableRequest()),
]


def test_the_ways_of_writing_csv(tmp_path):
    for data, request in WRITTEN:
        (tmp_path / "t.csv").write_bytes(data)
        assert read(tmp_path / "t.csv", request).equals(FRAME), data


def test_latin_1_where_it_is_asked_for(tmp_path):
    (tmp_path / "t.csv").write_bytes("id,n\ncafé,1\n".encode("latin-1"))
    options = TableRequest(encoding="latin-1")
    assert open_table([str(tmp_path / "t.csv")], options).read().frame["id"].to_list() == ["café"]


def test_quoted_delimiters_and_line_ends_are_text(tmp_path):
    (tmp_path / "t.csv").write_text('id,n,x\n"a,b",1,\n"two\nlines",2,1.5\n"say ""so""",3,\n')
    frame = read(tmp_path / "t.csv")
    assert frame["id"].to_list() == ["a,b", "two\nlines", 'say "so"']
    assert frame["x"].to_list() == [None, 1.5, None]


def test_text_is_typed_by_all_of_a_column(tmp_path):
    rows = "".join(f"{i},{i},true\n" for i in range(3000))
    (tmp_path / "t.csv").write_text("id,x,b\n" + rows + 'x9,0.5,""\n')
    frame = read(tmp_path / "t.csv")
    assert frame["id"][-1] == "x9"
    assert frame["x"].dtype == pl.Float64
    assert frame["b"].dtype == pl.String, "an empty text is no boolean"
    (tmp_path / "t.csv").write_text('id,x,b\n007,1,True\n7,"",FALSE\n99999999999999999999,3,\n')
    table = open_table([str(tmp_path / "t.csv")]).read()
    assert table.frame["id"].to_list() == ["007", "7", "9" * 20], "as they are written"
    frame = table.typed().frame
    assert frame["x"].to_list() == [1, None, 3]
    assert frame["b"].to_list() == [True, False, None]


def test_the_unnamed_column_of_row_numbers_is_left_out(tmp_path):
    (tmp_path / "t.csv").write_text(",id,n\n0,a,1\n1,b,2\n")
    assert open_table([str(tmp_path / "t.csv")]).read().frame.columns == ["id", "n"]


def test_options_check_themselves():
    assert TableRequest(delimiter="tab").separator == "\t"
    for wrong in ("", "ab", '"', "\n", "€"):
        with pytest.raises(InputError, match="delimiter"):
            TableRequest(delimiter=wrong)


@pytest.mark.parametrize(("before", "gzipped"), [(0, True), (20_000, False)])
def test_windows_1252_is_recognised_with_a_note(before, gzipped, tmp_path):
    rows = "".join(f"n{i},1\n" for i in range(before))
    data = f"id,n\n{rows}Zoë “café” €,2\n".encode("cp1252")
    path = tmp_path / ("t.csv.gz" if gzipped else "t.csv")
    path.write_bytes(gzip.compress(data) if gzipped else data)
    notes = Notes()
    frame = open_table([str(path)], notes=notes).read().frame
    assert frame.row(-1) == ("Zoë “café” €", "2")
    assert notes == [f"{path}: not UTF-8; read as Windows-1252 (--encoding)."]


@pytest.mark.parametrize("data", [b"id,n\nab\x81,1\n", b"id,n\nab\xe9,1\n"])
def test_an_encoding_that_is_given_is_no_guess(data, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    options = TableRequest(encoding="utf-8") if b"\xe9" in data else TableRequest()
    with pytest.raises(InputError, match="line 2: not valid UTF-8") as refused:
        open_table([str(path)], options).read()
    assert refused.value.fix == ("--encoding", "latin-1")
