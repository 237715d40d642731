# `make run` and `make test` are all that a newcomer needs; `make` lists the rest.
SHELL := /bin/bash
PYTHON ?=
export PYTHON
VENV := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help run stop test check dashboard reference bench format soak official operators conformance mutants clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: .venv/ready ## start a cluster in the background, see it at work, learn what to type next
	@$(VENV)/python tools/build_backend.py || echo "The cluster starts without its dashboard."
	@$(VENV)/python tools/show.py

stop: .venv/ready ## end the cluster that `make run` started
	@$(VENV)/sampan down

test: .venv/ready ## lint, types, import contracts, tests; ARGS="-k name" goes to pytest
	@tools/check.sh $(ARGS)

check: .venv/ready ## lint, types, import contracts, and the unit tests, which need no root, network namespace or browser
	@tools/check.sh --unit $(ARGS)

mutants: .venv/ready ## try whether tests notice small changes of the source: ARGS="--changed main" or ARGS="storage/memory.py"
	@$(VENV)/python -m tools.mutants $(ARGS)

dashboard: .venv/ready ## build the page of the dashboard, with the Node of the machine or that of a Python package
	@$(VENV)/python tools/build_backend.py

reference: .venv/ready ## write docs/reference/ from the code
	@$(VENV)/python tools/reference.py

bench: .venv/ready ## measure, and write benchmarks/RESULTS.md
	@$(VENV)/python -m benchmarks --write

format: .venv/ready ## put the code into the house format
	@$(VENV)/python -m ruff check --fix . && $(VENV)/python -m ruff format .

soak: .venv/ready ## the long tests that `make test` leaves out
	@$(VENV)/python -m pytest -m soak $(ARGS)

official: .venv/ready ## our own forms of official conformance tests that `make test` leaves out
	@$(VENV)/python -m pytest -m official -n auto --dist loadfile $(ARGS) tests/e2e/conformance

operators: .venv/ready ## the tests with real operators and with kubectl v1.37; builds those in Go, which `make test` does not
	@SAMPAN_BUILD_OPERATORS=1 $(VENV)/python -m pytest -v $(ARGS) tests/operators tests/machinery/cel/test_cel_rules.py tests/e2e/kubectl/test_comparison.py

conformance: .venv/ready ## run the official conformance suite; FOCUS='sig-node', KUBERNETES=1.36, ARGS="--runtime cri --store etcd --kubectl sampan"
	@tools/conformance.sh $(if $(FOCUS),--focus '$(FOCUS)') $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(ARGS)

clean: ## remove the virtual environment and all caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist dashboard/web/node_modules src/sampan/dashboard/static
	find src tests tools benchmarks -name __pycache__ -prune -exec rm -rf {} +

.venv/ready: pyproject.toml tools/setup.sh
	@tools/setup.sh
