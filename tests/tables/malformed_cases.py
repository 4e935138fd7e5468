"""Broken tables and the words of the error about each."""
# ruff: noqa: E501

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

NODES = "id,label,f\n1,a,0.5\n2,b,1.5\n3,a,2.5\n4,b,3.5\n"
EDGES = "source,target\n1,2\n2,3\n3,4\n"
LABELS = "--edges edges.csv --nodes nodes.csv"
PAIRS = "--task recommendation --edges pairs.csv"

Files = dict[str, str | bytes | pl.DataFrame | Callable[[Path], None]]


@dataclass(frozen=True)
class Case:
    """Files on top of a good pair of tables, what is asked, and what the answer must hold."""

    name: str
    files: Files
    says: tuple[str, ...]
    arguments: str = LABELS


def made(frame: pl.DataFrame, suffix: str) -> bytes:
    out = io.BytesIO()
    {"parquet": frame.write_parquet, "arrow": frame.write_ipc}[suffix](out)
    return out.getvalue()


def nodes(*rows: str, header: str = "id,label,f") -> str:
    return "\n".join([header, *rows]) + "\n"


def folder(path: Path) -> None:
    path.mkdir()


def fifo(path: Path) -> None:
    os.mkfifo(path)


E = {"source": [1, 2, 3], "target": [2, 3, 4]}
N = {"id": [1, 2, 3, 4], "label": ["a", "b", "a", "b"], "f": [0.5, 1.5, 2.5, 3.5]}
PARQUET = "--edges edges.parquet --nodes nodes.parquet"
good = pl.DataFrame

CASES: dict[str, list[Case]] = {
    "files": [
    Case("no such file", {}, ("edgs.csv: no such file", "Did you mean edges.csv?"),
         "--edges edgs.csv --nodes nodes.csv"),
    Case("no such folder", {}, ("away/edges.csv", "no folder away"),
         "--edges away/edges.csv --nodes nodes.csv"),
    Case("pattern without a match", {}, ("part-*.csv", "no file matches"),
         "--edges part-*.csv --nodes nodes.csv"),
    Case("a folder where a file should be", {"d.csv": folder}, ("d.csv: a folder without a table",),
         "--edges d.csv --nodes nodes.csv"),
    Case("a pipe", {"p.csv": fifo}, ("p.csv: not a regular file",),
         "--edges p.csv --nodes nodes.csv"),
    Case("a file twice", {}, ("edges.csv: named twice",),
         "--edges edges.csv --edges edges.csv --nodes nodes.csv"),
    Case("a folder of two formats", {"d/a.csv": EDGES, "d/b.parquet": made(good(E), "parquet")},
         ("d", "several formats (csv, parquet)"), "--edges d --nodes nodes.csv"),
    Case("unknown suffix", {"edges.dat": EDGES}, ("edges.dat", "--format"),
         "--edges edges.dat --nodes nodes.csv"),
    Case("a spreadsheet", {"edges.xlsx": b"PK\x03\x04..."}, ("edges.xlsx", "save the sheet as CSV"),
         "--edges edges.xlsx --nodes nodes.csv"),
    Case("a pickle", {"edges.pkl": b"\x80\x04."}, ("edges.pkl", "pickles are never loaded"),
         "--edges edges.pkl --nodes nodes.csv"),
    Case("Parquet named CSV", {"edges.csv": made(good(E), "parquet")},
         ("edges.csv: named csv, but its bytes are parquet", "--format parquet")),
    Case("a zip named CSV", {"edges.csv": b"PK\x03\x04junk"}, ("edges.csv: a zip archive",)),
    Case("gzip named CSV", {"edges.csv": gzip.compress(EDGES.encode())},
         ("edges.csv: packed with gzip",)),
    Case("CSV named gzip", {"edges.csv.gz": EDGES}, ("edges.csv.gz: named .gz",),
         "--edges edges.csv.gz --nodes nodes.csv"),
    Case("gzip cut short", {"edges.csv.gz": gzip.compress(EDGES.encode() * 99)[:40]},
         ("edges.csv.gz: damaged",), "--edges edges.csv.gz --nodes nodes.csv"),
    ],
    "text": [
    Case("empty file", {"edges.csv": ""}, ("edges.csv: the file is empty",)),
    Case("header only", {"edges.csv": "source,target\n"}, ("edges.csv", "no rows")),
    Case("blank first line", {"edges.csv": "\nsource,target\n1,2\n"}, ("edges.csv, line 1: blank",)),
    Case("no header", {"edges.csv": "1,2\n2,3\n"}, ("edges.csv, line 1", "look like data")),
    Case("no header, texts", {"edges.csv": "P1,P2\nP2,P3\nP1,P4\n"},
         ("edges.csv, row 2 (line 3), column 'P1'", "line 1 should name the columns", "add a line above")),
    Case("two columns of one name", {"edges.csv": "source,source\n1,2\n"},
         ("edges.csv, line 1: two columns", "'source'")),
    Case("open quote in the header", {"edges.csv": 'source,"target\n1,2\n'},
         ("edges.csv, line 1", "every double quote closed")),
    Case("wrong delimiter", {"edges.csv": EDGES.replace(",", ";")},
         ("edges.csv, line 1", "--delimiter ';'")),
    Case("tabs in CSV", {"edges.csv": EDGES.replace(",", "\t")},
         ("edges.csv, line 1", "--delimiter tab")),
    Case("commas in TSV", {"edges.tsv": EDGES}, ("edges.tsv, line 1", "a comma"),
         "--edges edges.tsv --nodes nodes.csv"),
    Case("long row", {"edges.csv": "source,target\n1,2\n2,3,9\n3,4\n"},
         ("edges.csv, row 2 (line 3): 3 fields", "header has 2")),
    Case("short row", {"nodes.csv": nodes("1,a,0.5", "2,b", "3,a,2.5", "4,b,1")},
         ("nodes.csv, row 2 (line 3): 2 fields", "header has 3")),
    Case("blank row", {"edges.csv": "source,target\n1,2\n\n2,3\n"}, ("edges.csv, row 2 (line 3): blank",)),
    Case("open quote", {"nodes.csv": nodes("1,a,1", '2,"b,2', "3,a,3", "4,b,4")},
         ("nodes.csv, row", "double quote")),
    Case("neither UTF-8 nor Windows-1252", {"nodes.csv": b"id,label,f\n1,caf\x81,1\n2,b,2\n"},
         ("nodes.csv, line 2: not valid UTF-8", "--encoding latin-1")),
    Case("the same far down", {"nodes.csv": nodes(*(f"{i},a,1" for i in range(9000)), "x,\x81,1").encode("latin-1")},
         ("nodes.csv, line 9002: not valid UTF-8",)),
    Case("UTF-16", {"edges.csv": EDGES.encode("utf-16")}, ("edges.csv: written in UTF-16", "leave out"),
         LABELS + " --encoding utf-8"),
    Case("not UTF-16", {}, ("edges.csv, line 1: not valid UTF-16",), LABELS + " --encoding utf-16"),
    Case("zero bytes", {"edges.csv": "source,target\n1,2\x00\n"}, ("edges.csv: holds zero bytes",)),
    Case("carriage returns alone", {"edges.csv": EDGES.replace("\n", "\r")},
         ("edges.csv", "carriage return")),
    Case("an encoding that is none", {}, ("--encoding klingon",), LABELS + " --encoding klingon"),
    Case("a delimiter that is none", {}, ("--delimiter", "'ab'"), LABELS + " --delimiter ab"),
    Case("JSON array", {"e.jsonl": '[{"source": 1}]\n'}, ("e.jsonl, row 1", "holds a list"),
         "--edges e.jsonl --nodes nodes.csv"),
    Case("broken JSON", {"e.jsonl": '{"source": 1, "target": 2}\n{"source": 2,\n'},
         ("e.jsonl, row 2 (line 2): the line ends too early",), "--edges e.jsonl --nodes nodes.csv"),
    Case("CSV named JSON lines", {"e.jsonl": EDGES}, ("e.jsonl, row 1 (line 1): not valid JSON",),
         "--edges e.jsonl --nodes nodes.csv"),
    Case("truncated Parquet", {"edges.parquet": made(good(E), "parquet")[:-20]},
         ("edges.parquet: not a readable parquet file",), "--edges edges.parquet --nodes nodes.csv"),
    Case("truncated Arrow", {"edges.arrow": made(good(E), "arrow")[:-20]},
         ("edges.arrow: not a readable arrow file",), "--edges edges.arrow --nodes nodes.csv"),
    Case("files of different columns", {"d/a.csv": EDGES, "d/b.csv": "source,other\n1,2\n"},
         ("d/b.csv", "unlike d/a.csv"), "--edges d --nodes nodes.csv"),
    Case("files of different types",
         {"d/a.csv": nodes("1,a,1", "2,b,2"), "d/b.csv": nodes("3,a,x", "4,b,y")},
         ("d/b.csv, column 'f'", "d/a.csv has"), "--edges edges.csv --nodes d"),
    ],
    "columns": [
    Case("ends that cannot be guessed", {"edges.csv": "alpha,beta,gamma\n1,2,3\n"},
         ("edges.csv", "--source", "'alpha', 'beta', 'gamma'")),
    Case("a column that is not there", {}, ("edges.csv: no column 'von'", "--source"),
         LABELS + " --source von"),
    Case("one column for both ends", {}, ("edges.csv", "both 'source'"),
         LABELS + " --source source --target source"),
    Case("no column of ids", {"nodes.csv": "who,label\n1,a\n2,b\n"}, ("nodes.csv", "--id")),
    Case("no column of labels", {"nodes.csv": "id,f\n1,1\n"}, ("nodes.csv", "--label", "'f'")),
    Case("label as feature", {}, ("nodes.csv: column 'label'", "--features"),
         LABELS + " --features label,f"),
    Case("id as label", {}, ("nodes.csv", "different columns"), LABELS + " --label id"),
    Case("options of another task", {}, ("--by-time is not supported",),
         LABELS + " --task link-prediction --by-time"),
    Case("labels without a table", {}, ("Node classification needs labels",),
         "--edges edges.csv --task node-classification"),
    ],
    "ids": [
    Case("missing id", {"edges.csv": "source,target\n1,2\n,3\n"},
         ("edges.csv, row 2 (line 3), column 'source': missing id",)),
    Case("missing id of a node", {"nodes.csv": nodes("1,a,1", ",b,2")},
         ("nodes.csv, row 2 (line 3), column 'id': missing id",)),
    Case("ids without a row", {"edges.csv": EDGES + "9,1\n"},
         ("edges.csv, row 4 (line 5), column 'source': id 9 has no row in nodes.csv",
          "--unknown-ids add")),
    Case("spaces around ids", {"edges.csv": "source,target\n1, 2\n2,3\n"},
         ("edges.csv, row 1 (line 2), column 'target'", "spaces around")),
    Case("leading zeros", {"edges.csv": "source,target\n1,2\n2,003\n"},
         ("edges.csv, row 2 (line 3), column 'target': id '003' has no row",)),
    Case("no id matches", {"edges.csv": "source,target\na,b\nb,c\n"},
         ("edges.csv", "no id of the edges is there")),
    Case("duplicate rows of nodes", {"nodes.csv": NODES + "2,b,1.5\n"},
         ("nodes.csv, row 5 (line 6), column 'id': id 2 again, after row 2",)),
    Case("decimal ids", {"edges.parquet": made(good({"source": [1.0, 2.0], "target": [2.0, 3.0]}), "parquet")},
         ("edges.parquet, column 'source': ids are decimal numbers",),
         "--edges edges.parquet --nodes nodes.csv"),
    Case("ids of 10^19, rounded", {"nodes.csv": nodes("1e+19,a,1", "2,b,2")},
         ("nodes.csv, row 1 (line 2), column 'id': id 1e+19", "rounded")),
    Case("ids that are lists", {"edges.parquet": made(good({"source": [[1]], "target": [[2]]}), "parquet")},
         ("edges.parquet, column 'source': ids cannot be of type List",),
         "--edges edges.parquet --nodes nodes.csv"),
    Case("texts here, numbers there",
         {"edges.parquet": made(good({"source": ["1"], "target": ["2"]}), "parquet"),
          "nodes.parquet": made(good(N), "parquet")},
         ("edges.parquet, column 'source': ids are texts", "nodes.parquet, column 'id'"), PARQUET),
    Case("ids of mixed types", {"e.jsonl": '{"source": 1, "target": 2}\n{"source": "1", "target": 3}\n'},
         ("e.jsonl, row 2 (line 2), column 'source': a text where row 1 has a number",),
         "--edges e.jsonl --nodes nodes.csv"),
    ],
    "edges": [
    Case("no edges in Parquet", {"edges.parquet": made(good(E).clear(), "parquet")},
         ("edges.parquet", "no rows"), "--edges edges.parquet --nodes nodes.csv"),
    Case("self-loops only", {"edges.csv": "source,target\n1,1\n2,2\n"},
         ("edges.csv: every edge joins a node with itself",)),
    Case("weights", {"edges.csv": "source,target,weight\n1,2,1\n2,3,0.5\n"},
         ("edges.csv, row 2 (line 3), column 'weight'", "--ignore-weights")),
    Case("weights of links", {"edges.csv": "source,target,trust\n1,2,1\n2,3,5\n"},
         ("--weight is not supported for link-prediction", "--ignore-weights"),
         "--edges edges.csv --task link-prediction --weight trust"),
    Case("negative weights", {"edges.csv": "source,target,trust\n1,2,1\n2,3,-5\n"},
         ("edges.csv, row 2 (line 3), column 'trust': a weight of -5",), LABELS + " --weight trust"),
    Case("directed links", {}, ("leave out --directed",),
         "--edges edges.csv --task link-prediction --directed"),
    ],
    "features": [
    Case("NaN", {"nodes.csv": nodes("1,a,1.5", "2,b,NaN", "3,a,2", "4,b,1")},
         ("nodes.csv, row 2 (line 3), column 'f': NaN", "--nan-is-missing")),
    Case("infinity", {"nodes.csv": nodes("1,a,1.5", "2,b,2", "3,a,-inf", "4,b,1")},
         ("nodes.csv, row 3 (line 4), column 'f': an infinite number",)),
    Case("a text among numbers", {"nodes.csv": nodes("1,a,1", "2,b,NA", "3,a,2", "4,b,1")},
         ("nodes.csv, row 2 (line 3), column 'f': 'NA' is not a number", "--missing 'NA'")),
    Case("a text after many numbers",
         {"nodes.csv": nodes(*(f"{i},{'ab'[i % 2]},1.5" for i in range(3000)), "9999,a,unknown")},
         ("nodes.csv, row 3001 (line 3002), column 'f': 'unknown' is not a number",)),
    Case("free text that is asked for", {"nodes.csv": nodes(*(f"{i},{'ab'[i % 2]},a sentence number {i}" for i in range(40)))},
         ("nodes.csv, column 'f': free text or an id", "--categorical f"), LABELS + " --features f"),
    Case("lists of different lengths", {"nodes.csv": nodes('1,a,"[1, 2]"', '2,b,"[1]"', '3,a,"[1, 2]"', '4,b,"[3, 4]"')},
         ("nodes.csv, row 2 (line 3), column 'f': a list of 1 where 2",)),
    Case("holes in lists", {"nodes.parquet": made(good({**N, "f": [[1.0], [None], [2.0], [3.0]]}), "parquet")},
         ("nodes.parquet, row 2, column 'f': a number of the list is missing",),
         "--edges edges.csv --nodes nodes.parquet"),
    Case("dates that are asked for", {"nodes.parquet": made(good(N).with_columns(f=pl.date(2024, 1, 1)), "parquet")},
         ("nodes.parquet, column 'f': dates", "leave it out of --features"),
         "--edges edges.csv --nodes nodes.parquet --features f"),
    Case("a comma that may be two things", {"nodes.csv": nodes('1,a,"1,234"', "2,b,2", "3,a,3", "4,b,4")},
         ("nodes.csv, row 1 (line 2), column 'f': the comma in '1,234'", "--exclude f")),
    Case("numbers too large", {"nodes.csv": nodes("1,a,1e308", "2,b,-1e308", "3,a,1e308", "4,b,0")},
         ("nodes.csv, column 'f': numbers too large",)),
    ],
    "labels": [
    Case("one class only", {"nodes.csv": nodes("1,a,1", "2,a,2", "3,a,3", "4,a,4")},
         ("nodes.csv, column 'label': every label is 'a'",)),
    Case("no labels", {"nodes.csv": nodes("1,,1", "2,,2", "3,,3", "4,,4")},
         ("nodes.csv, column 'label': no row has a label",)),
    Case("a class per row", {"nodes.csv": nodes("1,a,1", "2,b,2", "3,c,3", "4,d,4")},
         ("nodes.csv, column 'label': 4 different labels in 4 rows",)),
    Case("a quantity as label", {"nodes.parquet": made(good({**N, "label": [0.5, 1.0, 0.5, 1.0]}), "parquet")},
         ("nodes.parquet, row 1, column 'label': 0.5 is not a class",),
         "--edges edges.csv --nodes nodes.parquet"),
    Case("labels for unknown nodes", {"labels.csv": "id,label\n1,a\n77,b\n"},
         ("labels.csv, row 2 (line 3), column 'id': a label for 77",),
         LABELS + " --labels labels.csv"),
    Case("too few edges", {}, ("edges: 3 edges are too few to split",),
         "--edges edges.csv --task link-prediction"),
    Case("too few pairs", {"pairs.csv": "user,item,t\n1,2,3\n1,3,4\n"}, ("pairs: 2 pairs are too few",), PAIRS),
    Case("a part that is none", {"nodes.csv": nodes("1,a,train", "2,b,val", "3,a,tset", "4,b,test", header="id,label,split")},
         ("nodes.csv, row 3 (line 4), column 'split': 'tset' is not the name of a split",)),
    Case("nothing to validate on", {"nodes.csv": nodes("1,a,train", "2,b,train", "3,a,test", "4,b,test", header="id,label,split")},
         ("nodes.csv, column 'split': no row is marked validation",)),
    Case("training without a label", {"nodes.csv": nodes("1,a,train", "2,,train", "3,a,val", "4,b,test", header="id,label,split")},
         ("nodes.csv, row 2 (line 3), column 'label': a row for train without a label",)),
    Case("an edge in two parts", {"edges.csv": "source,target,split\n1,2,train\n2,3,val\n2,1,test\n"},
         ("edges.csv, row 3 (line 4), column 'split': this edge is in another part",),
         "--edges edges.csv --task link-prediction"),
    Case("an edge without a part", {"edges.csv": "source,target,split\n1,2,train\n2,3,val\n3,4,\n1,4,\n"},
         ("edges.csv, row 3 (line 4), column 'split': this edge has no part, like 1 more; write train, validation or test, or remove",),
         "--edges edges.csv --task link-prediction"),
    Case("shares above one", {}, ("--train and --validation", "0.9 and 0.2"),
         LABELS + " --train 0.9 --validation 0.2"),
    ],
    "pairs": [
    Case("ratings", {"pairs.csv": "user,item,rating\n1,2,5\n2,3,4\n"},
         ("pairs.csv, row 2 (line 3), column 'rating'", "--ignore-weights"), PAIRS),
    Case("no times to split by", {"pairs.csv": "user,item\n1,2\n2,3\n"}, ("pairs.csv", "--time"),
         PAIRS + " --by-time"),
    Case("a time that is none", {"pairs.csv": "user,item,time\n1,2,2024-01-01\n2,3,soon\n"},
         ("pairs.csv, row 2 (line 3), column 'time': 'soon' is not a timestamp",), PAIRS),
    Case("a missing time", {"pairs.csv": "user,item,time\n1,2,5\n2,3,\n"},
         ("pairs.csv, row 2 (line 3), column 'time': missing timestamp",), PAIRS),
    Case("a time too large", {"pairs.csv": "user,item,time\n1,2,5\n2,3,1e20\n"},
         ("pairs.csv, row 2 (line 3), column 'time'", "out of range"), PAIRS),
    Case("one moment for all", {"pairs.csv": "user,item,time\n1,2,5\n2,3,5\n3,4,5\n"},
         ("too many pairs share one moment",), PAIRS + " --by-time"),
    Case("a single item", {"pairs.csv": "user,item\n1,2\n3,2\n"},
         ("pairs.csv, column 'item': there is a single item",), PAIRS),
    Case("a pair in two parts", {"pairs.csv": "user,item,split\n1,2,train\n1,3,val\n1,2,test\n"},
         ("pairs.csv, row 3 (line 4), column 'split': this pair is in another part",), PAIRS),
    Case("nodes for pairs", {"pairs.csv": "user,item\n1,2\n2,3\n"}, ("--nodes is not supported",),
         PAIRS + " --nodes nodes.csv"),
    ],
}  # fmt: skip
