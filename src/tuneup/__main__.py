"""``python -m tuneup``: the command line."""

from tuneup.cli import main

main()
