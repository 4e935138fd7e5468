"""Base and TuneUp on one graph: what ``tuneup fit`` and ``tuneup demo`` do.

===============  ==================================================================================
``problems``     a graph, a model for it and what is scored; those of the demo
``alpha``        training both stages, with alpha given or chosen on validation
``outcome``      what came of it, as the run folder says it
``demo``         a generated graph from beginning to end
``fit``          a user's tables from beginning to end: to a saved model
``inputs``       vectors that are learned where tables have no features
``split_facts``  how many nodes, edges or pairs were for what, in words
``run_folders``  a run folder read back, for ``tuneup report``
``provenance``   versions, revision of the code, machine
===============  ==================================================================================
"""
