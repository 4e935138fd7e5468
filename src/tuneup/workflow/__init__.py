"""Base and TuneUp on one graph: what ``tuneup fit`` and ``tuneup demo`` do.

===============  ==================================================================================
``problems``     a graph, a model for it and what is scored; those of the demo
``alpha``        training both stages, with alpha given or chosen on validation
``outcome``      what came of it, as the run folder says it
``demo``         a generated graph from beginning to end
``fit``          a user's tables from beginning to end
``refit``        the selected model trained again on everything
``saving``       the folder of a fitted model
``classes``      measures and calibration class by class
``inputs``       vectors that are learned where tables have no features
``split_facts``  how many nodes, edges or pairs were for what, in words
``run_folders``  a run folder read back, for ``tuneup report``
``provenance``   versions, revision of the code, machine
===============  ==================================================================================
"""
