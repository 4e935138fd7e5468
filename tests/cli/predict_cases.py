"""Broken questions to a saved model, and what must be said about each."""
# ruff: noqa: E501

from __future__ import annotations

from tests.tables.malformed_cases import Case, good, made

TRAINED = 'id,label,color,f,good,v\n1,a,red,0.5,true,"[1, 2]"\n2,b,blue,1.5,false,"[2, 1]"\n3,a,red,2.5,true,"[0, 2]"\n4,b,07,3.5,false,"[1, 0]"\n'
TRAINED_EDGES = "source,target\n1,2\n2,3\n3,4\n"
TRAINED_PAIRS = "user,item\n10,v\n10,w\n11,x\n"

NODES = 'id,color,f,good,v\n8,red,1,true,"[1, 2]"\n9,07,2,false,"[0, 0]"\n'
EDGES = "source,target\n8,1\n9,8\n"
PAIRS = "user,item\n77,v\n78,w\n"
FILES = {"nodes.csv": NODES, "edges.csv": EDGES, "pairs.csv": PAIRS}

NEW = "classes --nodes nodes.csv --edges edges.csv --out answers.csv"
CARTS = "shop --edges pairs.csv --out answers.csv"
WANTED = "classes --ids-from ids.csv --out answers.csv"


def row(text: str) -> str:
    """The good table with another first row."""
    header, _, other = NODES.splitlines()
    return "\n".join([header, text, other]) + "\n"


CASES = [
    # Files.
    Case(
        "no such file",
        {},
        ("node.csv: no such file. Did you mean nodes.csv?",),
        "classes --nodes node.csv",
    ),
    Case("empty file", {"nodes.csv": ""}, ("nodes.csv: the file is empty",), NEW),
    Case(
        "header alone",
        {"nodes.csv": NODES.splitlines()[0] + "\n"},
        ("nodes.csv: has a header but no rows",),
        NEW,
    ),
    Case(
        "a spreadsheet",
        {"nodes.xlsx": b"PK\x03\x04"},
        ("nodes.xlsx", "CSV"),
        "classes --nodes nodes.xlsx",
    ),
    Case(
        "neither UTF-8 nor Windows-1252",
        {"nodes.csv": row('8,gr\x81n,1,true,"[1, 2]"').encode("latin-1")},
        ("nodes.csv, line 2: not valid UTF-8", "--encoding latin-1"),
        NEW,
    ),
    Case(
        "truncated Parquet",
        {"nodes.parquet": made(good({"id": [8]}), "parquet")[:-9]},
        ("nodes.parquet: not a readable parquet file",),
        "classes --nodes nodes.parquet",
    ),
    Case(
        "a ragged row",
        {"nodes.csv": NODES + "10,red\n"},
        ("nodes.csv, row 3 (line 4)", "2 fields where the header has 5"),
        NEW,
    ),
    Case(
        "another delimiter",
        {"edges.csv": "source;target\n8;1\n"},
        ("edges.csv, line 1: ", "--delimiter ';'"),
        NEW,
    ),
    Case(
        "broken JSON",
        {"nodes.jsonl": '{"id": 8, "f": 1}\n{"id": 9,\n'},
        ("nodes.jsonl, row 2",),
        "classes --nodes nodes.jsonl",
    ),
    Case("an empty pattern", {}, ("new-*.csv", "no"), "classes --nodes new-*.csv"),
    # Columns.
    Case(
        "a feature is missing",
        {"nodes.csv": 'id,f,good,v\n8,1,true,"[1, 2]"\n9,1,true,"[1, 2]"\n'},
        ("nodes.csv: lacks column 'color', a feature that the model was trained with",),
        NEW,
    ),
    Case(
        "no id",
        {
            "nodes.csv": NODES.replace("id,", "who,")
            .replace("v\n", "v,extra\n")
            .replace('2]"\n', '2]",1\n')
            .replace('0]"\n', '0]",1\n')
        },
        ("nodes.csv: no column is called id", "--id"),
        NEW,
    ),
    Case(
        "an id column that is not there",
        {},
        ("nodes.csv: no column 'key' (--id); there are",),
        NEW + " --id key",
    ),
    Case(
        "ends that cannot be told",
        {"edges.csv": "a,b,c\n8,1,1\n"},
        ("edges.csv: cannot tell which two columns", "--source and --target"),
        NEW,
    ),
    Case(
        "one column of edges",
        {"edges.csv": "source\n8\n"},
        ("edges.csv: cannot tell which two columns", "of 'source'"),
        NEW,
    ),
    Case(
        "a column of another task",
        {},
        ("--user is not supported", "has nodes"),
        NEW + " --user source",
    ),
    # Values.
    Case(
        "text in a column of numbers",
        {"nodes.csv": row('8,red,tall,true,"[1, 2]"')},
        ("nodes.csv, row 1 (line 2), column 'f': 'tall' is not a number", "--missing 'tall'"),
        NEW,
    ),
    Case(
        "NaN",
        {"nodes.csv": row('8,red,NaN,true,"[1, 2]"')},
        ("nodes.csv, row 1 (line 2), column 'f': NaN", "--nan-is-missing"),
        NEW,
    ),
    Case(
        "infinity",
        {"nodes.csv": row('8,red,inf,true,"[1, 2]"')},
        ("nodes.csv, row 1 (line 2), column 'f': an infinite number",),
        NEW,
    ),
    Case(
        "neither true nor false",
        {"nodes.csv": row('8,red,1,maybe,"[1, 2]"')},
        ("nodes.csv, row 1 (line 2), column 'good': 'maybe' is neither true nor false",),
        NEW,
    ),
    Case(
        "a list that is too long",
        {"nodes.csv": row('8,red,1,true,"[1, 2, 3]"')},
        ("nodes.csv, row 1 (line 2), column 'v': a list of 3 where 2 are needed",),
        NEW,
    ),
    Case(
        "lists where numbers were",
        {
            "nodes.parquet": made(
                good(
                    {"id": [8], "color": ["red"], "f": [[1.0]], "good": [True], "v": [[1.0, 2.0]]}
                ),
                "parquet",
            )
        },
        ("nodes.parquet, column 'f': holds List",),
        "classes --nodes nodes.parquet",
    ),
    # Ids.
    Case(
        "an id twice",
        {"nodes.csv": NODES + NODES.splitlines()[1] + "\n"},
        ("nodes.csv, row 3 (line 4), column 'id': id 8 again, after row 1",),
        NEW,
    ),
    Case(
        "no id in a row",
        {"nodes.csv": row(',red,1,true,"[1, 2]"')},
        ("nodes.csv, row 1 (line 2), column 'id': missing id",),
        NEW,
    ),
    Case(
        "a known node as a new one",
        {"nodes.csv": NODES + '2,red,1,true,"[1, 2]"\n'},
        ("nodes.csv, row 3 (line 4), column 'id': the model knows node 2 already", "--ids"),
        NEW,
    ),
    Case(
        "an edge to nobody",
        {"edges.csv": EDGES + "8,44\n"},
        (
            "edges.csv, row 3 (line 4), column 'target': the model knows no node 44, nor is there a new one",
        ),
        NEW,
    ),
    Case(
        "007 is not 7",
        {"edges.csv": EDGES + "8,003\n"},
        ("edges.csv, row 3 (line 4), column 'target': the model knows no node '003'",),
        NEW,
    ),
    Case(
        "an edge between known nodes",
        {"edges.csv": EDGES + "1,2\n"},
        ("edges.csv, row 3 (line 4): joins '1' and '2', which the model both knows",),
        NEW,
    ),
    Case(
        "decimal ids",
        {"edges.parquet": made(good({"source": [8.0], "target": [1.0]}), "parquet")},
        ("edges.parquet, column 'source': ids are decimal numbers",),
        NEW.replace("edges.csv", "edges.parquet"),
    ),
    Case(
        "rounded ids",
        {"edges.csv": "source,target\n8,1.2e+19\n"},
        ("edges.csv, row 1 (line 2), column 'target': id 1.2e+19 is a rounded number",),
        NEW,
    ),
    Case(
        "edges alone",
        {},
        ("New nodes need rows with their features: give --nodes",),
        "classes --edges edges.csv",
    ),
    Case(
        "an unknown item",
        {"pairs.csv": PAIRS + "77,zz\n"},
        (
            "pairs.csv, row 3 (line 4), column 'item': the model knows no item 'zz'; it knows 3, like 'v'",
        ),
        CARTS,
    ),
    Case(
        "a known user as a new one",
        {"pairs.csv": PAIRS + "10,v\n"},
        ("pairs.csv, row 3 (line 4), column 'user': the model knows user 10 already",),
        CARTS,
    ),
    Case(
        "an item without a user",
        {"pairs.csv": PAIRS + ",v\n"},
        ("pairs.csv, row 3 (line 4), column 'user': missing id",),
        CARTS,
    ),
    Case(
        "an unknown id that is wanted",
        {"ids.csv": "id\n1\n5\n"},
        ("ids.csv, row 2 (line 3), column 'id': the model knows no node 5; it knows 4, like 1",),
        WANTED,
    ),
    Case(
        "ids without a header",
        {"ids.csv": "1\n2\n"},
        ("ids.csv, line 1: 1 look like data",),
        WANTED,
    ),
]
