# Every command the documents mention. `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# What compiled modules are built from.
COMPILED := hatch_build.py $(shell find src -name '*.pyx' -o -name '*.pxd')
# Extra arguments for pytest: make test PYTEST="-k settings", one process: PYTEST="-n 0 -k settings"
PYTEST ?=
# Processes that run the tests. Most tests wait for servers, so there are more than cores.
WORKERS ?= 4
# Arguments of the benchmarks: make bench BENCH="compute"
BENCH ?=

# Without compiled files next to the sources every process compiles all it imports, for seconds of CPU;
# tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo servers test lint format proto bench bench-reference soak docs lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(INSTALLED)  ## create .venv with the locked dependencies and this package

$(INSTALLED): requirements.lock pyproject.toml scripts/bootstrap.py $(COMPILED)
	@$(PYTHON) scripts/bootstrap.py
	@touch $@

demo: setup  ## see it work, offline
	@$(BIN)/tardis-machine demo

servers: setup  ## fetch the servers that tests and benchmarks start
	@$(BIN)/python -m tests.servers.obtain

test: servers  ## run every test that does not take long; needs Java 17 for the broker tests
	$(BIN)/python -m pytest -n $(WORKERS) -m "not soak and not live" $(PYTEST)

lint: setup  ## check style, types, layers, generated files and documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/proto.py --check
	$(BIN)/python scripts/docs.py --check
	$(BIN)/python scripts/tracked.py

format: setup  ## format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: setup  ## format, lint, compare and generate the Bronze schemas
	$(BIN)/python scripts/proto.py

bench: servers  ## measure; BENCH="--write compute" keeps one result in docs/performance.md
	$(BIN)/python -m benchmarks $(BENCH)

bench-reference: setup  ## compare with another server; REFERENCE='command with {port} and {cache}'
	$(BIN)/python -m benchmarks.replay --reference "$$REFERENCE" $(BENCH)

soak: servers  ## run the tests that take too long for every run
	$(BIN)/python -m pytest -m soak $(PYTEST)

docs: setup  ## write the documents that come from declarations
	$(BIN)/python scripts/docs.py

lock: setup  ## renew requirements.lock within the bounds of pyproject.toml
	$(BIN)/python scripts/lock.py

clean:  ## remove the environment and every cache
	find src -name '*.so' -delete
	rm -rf build .venv .servers .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
