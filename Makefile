# make run    sets up and runs the main job on the default workload
# make test   sets up the same way and passes the tests
# Neither installs anything a second time.

VENV ?= .venv
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3 2>/dev/null))
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKLOAD ?= news-topics

.DEFAULT_GOAL := help
.PHONY: help setup run test test-quick check format constraints image-locks clean

help: ## Show what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

setup: $(INSTALLED) ## Make the virtual environment

# The project itself is installed so that it can be edited; constraints.txt pins everything else.
$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; found: $(PYTHON). Set PYTHON=/path/to/python3.11"; exit 2; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version): about 2 GB and two minutes, once"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[dev]'
	@touch $@

run: $(INSTALLED) ## Run the main job: train, compare, register, report
	@$(BIN)/compilegate run $(WORKLOAD)

test: $(INSTALLED) ## Lint, check types, run all tests
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/python -m pytest

test-quick: $(INSTALLED) ## Run the tests that take less than a minute in all
	@$(BIN)/python -m pytest -m "not slow"

check: $(INSTALLED) ## Lint and check types only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(INSTALLED) ## Format the code
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

constraints: $(INSTALLED) ## Write constraints.txt from the newest versions that pyproject.toml allows
	@rm -rf .cache/constraints && $(PYTHON) -m venv .cache/constraints
	@.cache/constraints/bin/python -m pip install --quiet --quiet --editable '.[dev]'
	@{ sed -n '/^#/p' constraints.txt; .cache/constraints/bin/python -m pip freeze --exclude-editable \
	  | sed 's/+cpu//'; } > .cache/constraints.txt && mv .cache/constraints.txt constraints.txt

image-locks: ## Write the digests of what the gate's image installs, at the versions of constraints.txt
	@$(PYTHON) -m venv .cache/uv && .cache/uv/bin/python -m pip install --quiet --quiet 'uv>=0.9,<1'
	@cd containers/gate && ../../.cache/uv/bin/uv pip compile --quiet --universal --python-version 3.11 \
	  --no-build --generate-hashes --default-index https://pypi.org/simple \
	  --custom-compile-command 'make image-locks' --constraint ../../constraints.txt \
	  --output-file requirements.lock requirements.txt

clean: ## Remove the virtual environment, caches and local executions
	@rm -rf $(VENV) .cache .compilegate .mypy_cache .ruff_cache .pytest_cache .hypothesis
