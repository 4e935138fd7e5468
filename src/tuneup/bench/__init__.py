"""The paper's experiments: what is run, the store of results, and every table of it.

``presets`` has schedules, grids and seeds, ``problems`` what is trained on each dataset,
``studies`` what a request runs, ``runner`` claims and makes it, ``store`` keeps it, ``tables``
pivots it beside the paper's numbers, ``render`` prints, ``report`` draws.
"""

from .store import Run, Store
from .tables import find_blocks, long_table

__all__ = ["Run", "Store", "find_blocks", "long_table"]
