"""Where the tail of the degrees ends."""

TAIL_DEGREE = 5
"""A tail node has at most this many edges in the input graph: the paper's 0-5."""
