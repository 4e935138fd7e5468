"""Base and TuneUp on one graph: what ``tuneup fit`` and ``tuneup demo`` do.

===============  ==================================================================================
``options``      the options of a fit
``problems``     what a method is trained on and evaluated in
``fit``          a user's tables, training both stages, and training again on everything
``search``       settings chosen on validation
``outcome``      a finished fit: the scores of every model, and their summary
``demo``         a generated graph from beginning to end
``run_folders``  the folder of a run: claimed, written and read
===============  ==================================================================================
"""
