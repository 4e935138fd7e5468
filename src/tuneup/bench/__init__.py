"""The paper's experiments: what is run, the store of results, and every table of it.

``presets`` has schedules, grids and seeds, ``problems`` what is trained on each dataset and in each
study, ``runner`` plans, claims and makes runs, ``store`` keeps them, ``paper`` has the published
numbers, ``tables`` pivots both, ``conditions`` says what a table was made under, ``render`` prints,
``figures`` draws, ``summaries`` makes the pages of ``tuneup report``.
"""

from .store import Run, Store
from .tables import find_blocks, long_table

__all__ = ["Run", "Store", "find_blocks", "long_table"]
