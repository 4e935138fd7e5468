"""Base and TuneUp on one graph: what ``tuneup fit`` and ``tuneup demo`` do.

===============  ==================================================================================
``problems``     the options of a fit, and what a method is trained on and evaluated in
``search``       training both stages, with settings and alpha given or chosen on validation
``outcome``      a finished fit with the scores of every model
``fit``          a user's tables from beginning to end, and training again on everything
``demo``         a generated graph from beginning to end
``run_folders``  the folder of a finished run, written and read
``provenance``   versions, revision of the code, machine
===============  ==================================================================================
"""
