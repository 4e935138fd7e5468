# Needs Python >= 3.11 and make. Every target sets up .venv on first use; `make clean` removes it.
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
SOURCES := src tests $(wildcard examples benchmarks docs)
PYTEST_ARGS ?=
BENCH_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-torch lint bench docs clean

help:  ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED)  ## Train Base and TuneUp on a synthetic graph and show the gain per degree.
	$(BIN)/tuneup demo

# One thread per worker: two workers with two threads each would fight over two cores. Files in their
# own order: by their number of tests, those with few long ones would come last, on one worker.
test: lint  ## Lint, type-check and run every test.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# Gigabytes: other builds of torch bring CUDA libraries. Ranges in pyproject.toml are what this proved.
test-torch:  ## Run every test on another torch: make test-torch TORCH=2.14.0
	@test -n "$(TORCH)" || { echo "Name a version: make test-torch TORCH=2.14.0" >&2; exit 1; }
	python3 -m venv .venv-torch-$(TORCH)
	grep -v '^torch==' constraints.txt > .venv-torch-$(TORCH)/constraints.txt
	.venv-torch-$(TORCH)/bin/python -m pip install -qq torch==$(TORCH)
	.venv-torch-$(TORCH)/bin/python -m pip install -qq -c .venv-torch-$(TORCH)/constraints.txt -e '.[dev,docs]'
	OMP_NUM_THREADS=1 .venv-torch-$(TORCH)/bin/python -m pytest -q -n 2 --dist loadfile $(PYTEST_ARGS)

lint: $(INSTALLED)  ## Check style and types.
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy

bench: $(INSTALLED)  ## Run the benchmarks behind the tables of benchmarks/README.md.
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

# Not --quiet: what is not said is not counted, and --strict would let every warning pass.
docs: $(INSTALLED)  ## Build the documentation into site/.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open site/index.html, or run $(BIN)/mkdocs serve to search too."

clean:  ## Remove the virtual environment, the caches and what was built.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

# Candidates are tried by running them: a version manager may put a `python3.11` on PATH that is
# not installed. torch comes first and pinned, so that nothing can pull in another build of it.
$(INSTALLED): pyproject.toml constraints.txt
	@for python in $(PYTHON) python3.11 python3; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "Setting up $(VENV) (first use only, a few minutes) ..."; \
	        exec $$python -m venv $(VENV); \
	    elif [ -n "$(PYTHON)" ]; then break; fi; \
	done; \
	echo "Python 3.11 or newer is needed: install it, or name it with 'make PYTHON=/path/to/python'." >&2; \
	exit 1
	@$(PIP_INSTALL) torch
	@$(PIP_INSTALL) -e '.[dev,docs]'
	@touch $@
