"""The paper's experiments, their records, and what is shown of them.

*What is run*: ``presets`` (schedules, grids, seeds), ``experiments`` (what is trained on each
dataset), ``cells`` (what a command asks for, and its dry run), ``timing`` (how long it takes).

*Running it*: ``suite`` (all rows of one dataset, task and architecture), ``trainings`` (one run,
resumed where it stopped), ``choices`` (which settings a method gets), ``selection`` (how they
follow from trials), ``studies`` (which process makes which trial), ``memory`` (the peak of one
run), ``floors`` (what needs no training).

*On disk*: ``records`` (a finished run), ``trial_files`` (a finished trial), ``kept`` (the folder of
both: what is there, what must be made).

*Showing it*: ``blocks`` (which tables there are), ``tables`` (one of them: ``Block``), ``rows`` (a
method in it), ``conditions`` (what it was made under), ``rendering`` (Markdown and LaTeX),
``terminal``, ``grids`` (a table of the paper with all of its graphs), ``frames`` (CSV),
``figures``, ``paper`` and ``published`` (the paper's numbers, and its tables of graphs that were
not run), ``claims``, ``gains``, ``shares`` and ``by_degree`` (tables over all blocks),
``results_page`` (RESULTS.md), ``run_records`` (a block as ``tuneup report`` shows it),
``catalogue`` (``tuneup methods`` and ``tuneup datasets``).
"""

from .records import RunRecord, read_records

__all__ = ["RunRecord", "read_records"]
