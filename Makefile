# make quickstart   sets everything up and trains the bundled encoder on bundled sentences
# make test         sets everything up and runs the tests
# make readme       writes the result table and picture of README.md from results/
# make docs         builds the documentation into site/ (open site/index.html); a warning is an error
#
# Another Python, package index or folder of wheels (say, for a CPU build of torch):
#   make test PYTHON=python3.12 PIP_ARGS="--extra-index-url URL"     or     PIP_ARGS="--find-links DIR"

PYTHON ?= python3
PIP_ARGS ?=
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: quickstart test test-all lint docs readme clean

quickstart: $(READY)
	@echo "== selfguide quickstart: training the bundled encoder, offline, a little over a minute on two cores"
	$(BIN)/selfguide quickstart

test: $(READY)
	@echo "== tests (no network; those that need the folder of SELFGUIDE_SHARED are skipped where it is missing)"
	$(BIN)/python -m pytest -n 2 -m "not second_environment and not slow"

test-all: $(READY)
	@echo "== tests that need a second environment, or minutes"
	$(BIN)/python -m pytest -m "second_environment or slow"

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks docs tools
	$(BIN)/ruff format --check src tests benchmarks docs tools
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --fresh-env --quiet docs site
	@echo "== site/index.html"

readme: $(READY)
	$(BIN)/python tools/readme_results.py

# Set up once: a new virtual environment from the pinned lock file; done again only when the lock file changes.
$(READY): requirements.lock pyproject.toml
	@echo "== setting up $(VENV) from requirements.lock (once; some minutes)"
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "Python 3.11 or later is needed; make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) -r requirements.lock
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) --no-deps -e .
	@touch $(READY)

clean:
	rm -rf $(VENV) .venvs .pytest_cache .mypy_cache .ruff_cache site
