"""``tuneup methods``."""

from rich.console import Console


def command() -> None:
    """List TuneUp, its ablations and the published baselines, with what each needs.

    Every line below a method's summary is a limit of it, or a setting with the values that are
    tried.
    """
    from tuneup.bench.catalogue import methods_table
    from tuneup.methods import METHODS

    Console().print(methods_table(METHODS.values()))
