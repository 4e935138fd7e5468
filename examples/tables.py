"""Write papers.csv and citations.csv: tables to try the command line on, made from a seed."""

from pathlib import Path

import polars as pl

from tuneup.data import demo_graph


def main(folder: Path = Path()) -> None:
    """Papers, a quarter of them with a known field, and their citations."""
    graph = demo_graph(seed=0)
    ids = pl.Series("id", [f"P{node:04d}" for node in range(graph.num_nodes)])
    words = {f"topic_{k}": graph.x[:, k].numpy() for k in range(graph.num_features)}
    known = (pl.int_range(graph.num_nodes, eager=True) % 4 == 0).alias("known")
    field = pl.Series("field", [f"field {label}" for label in graph.y.tolist()])
    papers = pl.DataFrame([ids, *(pl.Series(name, value) for name, value in words.items())])
    papers = papers.with_columns(pl.when(known).then(field).alias("label"))
    citing, cited = graph.adjacency.edge_index
    once = (citing < cited).numpy()
    edges = pl.DataFrame(
        {"citing": ids.gather(citing.numpy()[once]), "cited": ids.gather(cited.numpy()[once])}
    )
    papers.write_csv(folder / "papers.csv")
    edges.write_csv(folder / "citations.csv")


if __name__ == "__main__":
    main()
