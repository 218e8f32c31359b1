# Works with Python 3.11 or newer and make alone; uv is used when it is there.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell $(name) -c 'import sys; print("$(name)") if sys.version_info >= (3, 11) else None' 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.setup-done
SPARK := $(VENV)/.spark-done
UV := $(shell command -v uv 2>/dev/null)
PYTEST := $(BIN)/python -m pytest
SOURCES := $(wildcard parser udf rules planner sqlengine demo examples server.py hatch_build.py)
# Tests start hundreds of interpreters: compiled modules are kept, where the environment says no, too.
export PYTHONDONTWRITEBYTECODE :=
# Three processes for two cores, since tests wait for servers, too; a file of tests in one of
# them: what a file prepares is prepared once. A process that dies ends the run, which names its test: with
# another in its place xdist may wait for ever. Files run in the order of tests/conftest.py, and not the
# longest first: at the end there would be only files of few tests, which wait.
CORES := $(shell getconf _NPROCESSORS_ONLN)
SIDE_BY_SIDE := -n $(shell expr $(CORES) \* 3 / 2 + $(CORES) % 2) --maxprocesses=6 --dist loadfile --no-loadscope-reorder --max-worker-restart=0
# pytest exits 5 when it finds no test of a kind: nothing failed then.
NO_TESTS_OK := || [ $$? -eq 5 ]

.PHONY: help setup setup-spark setup-servers check format test test-all test-slow soak test-spark test-oracle test-wheel goldens-check bench demo lock sbom wheel clean

help: ## show the targets
	@grep -hE '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z -]+):.*## /\1\t/' | expand -t 16

setup: $(SETUP) ## make .venv with locked versions and the commands `sql` and `sqlengine`
	@$(BIN)/python -m compileall -q $(SOURCES)

setup-spark: $(SPARK) ## add Spark to .venv

setup-servers: $(SETUP) ## what tests of connectors run against: programs of Debian (as root), jars of Maven Central
	@$(BIN)/python -m tests.servers.setup

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "needs Python 3.11 or newer: make setup PYTHON=/path/to/python3" >&2; exit 1; }
	$(if $(UV),"$(UV)" venv --quiet --seed --allow-existing --python "$(PYTHON)" $(VENV),"$(PYTHON)" -m venv $(VENV))

INSTALL = $(if $(UV),"$(UV)" pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)

$(SETUP): requirements/runtime.txt requirements/dev.txt pyproject.toml | $(BIN)/python
	$(INSTALL) --require-hashes -r requirements/dev.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# Extras that `make test` needs, too.
TESTED_EXTRAS := mysql mysql-cdc postgresql jwt avro kafka protobuf http otlp sigma
# One list for all versions of Python and kinds of processors, with the hashes of all their files.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" $(UPGRADE)

$(SPARK): requirements/spark.txt $(SETUP)
	$(INSTALL) --require-hashes -r requirements/spark.txt
	@touch $@

check: $(SETUP) ## style, types, direction of imports, licences
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers $(CORES) $(SOURCES) $(wildcard benchmarks tests)
	$(BIN)/lint-imports
	$(BIN)/python -m tests.supply_chain.licences

format: $(SETUP) ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: check ## what every change must pass, in minutes
	$(PYTEST) $(SIDE_BY_SIDE) -o faulthandler_timeout=300 -m "not slow and not spark and not oracle"

test-all: test test-slow test-wheel test-oracle test-spark ## everything

test-slow: $(SETUP) ## kills of processes, long simulations
	$(PYTEST) -o faulthandler_timeout=1800 -m "slow and not spark and not oracle" $(NO_TESTS_OK)

soak: $(SETUP) ## ten thousand simulated lives with faults, on all cores; then half an hour of attacks on a server, and flipped bits of 150 data folders
	$(BIN)/python -m tests.simulation --lives 10000 --update
	$(BIN)/python -m tests.hostile.fuzzing --minutes 30
	$(PYTEST) tests/hostile/test_damaged_folders.py

test-wheel: $(SETUP) ## the tests once more, against the built wheel in an environment of its own
	$(BIN)/python tests/packaging/run_on_wheel.py -m "not slow and not spark and not oracle"

test-oracle goldens-check: $(SETUP) ## record the golden files again with a real Flink: no difference
	$(PYTEST) -m oracle $(NO_TESTS_OK)

test-spark: $(SPARK) ## the same rows on Spark
	$(PYTEST) -o faulthandler_timeout=1800 -m "spark and not oracle" $(NO_TESTS_OK)

bench: $(SETUP) ## the figures of the documents, the quick ones (ONLY=connectors: those of this name, or that begin with it)
	$(BIN)/python -m benchmarks $(ONLY)

demo: $(SETUP) ## events, attacks and rules on this machine
	$(BIN)/python -m demo

lock: $(SETUP) ## requirements/*.txt for pyproject.toml, with hashes (UPGRADE="--upgrade-package NAME" or --upgrade: newer versions)
	$(LOCK) -o requirements/runtime.txt pyproject.toml
	$(LOCK) -o requirements/dev.txt -c requirements/runtime.txt $(TESTED_EXTRAS:%=--extra %) --group dev pyproject.toml
	$(LOCK) -o requirements/spark.txt -c requirements/runtime.txt --extra spark pyproject.toml

sbom: $(SETUP) ## dist/sbom.cdx.json: the libraries as CycloneDX lists them
	$(BIN)/python -m tests.supply_chain.sbom dist/sbom.cdx.json

wheel: $(SETUP) ## dist/*.whl
	$(BIN)/hatchling build -t wheel -d dist

clean: ## remove what was built (not .venv, not data)
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find $(SOURCES) tests -name __pycache__ -type d -prune -exec rm -rf {} +
