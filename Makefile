# make demo    set up, then the main job on the committed captures
# make test    set up, then all tests (make test-fast leaves out the slow ones)
# make check   format, lint, strict types, layout rule, tests
# make bench   speed and memory beside tshark, on generated captures
# make accuracy  predictions of hsa replay beside real runs over links (root, half an hour)
#
# Everything happens in .venv; nothing but Python 3.11 or later and make need be there before.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := demo
.PHONY: demo test test-fast check static format bench accuracy bytecode tools clean

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3.14 python3 python,\
  $(if $(shell $(p) -c 'import sys; print("yes" if sys.version_info >= (3, 11) else "")' 2>/dev/null),$(p))))
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
QUIETLY = > $(VENV)/log 2>&1 || { cat $(VENV)/log; exit 1; }
APT_PACKAGES := tshark nginx chromium

demo: $(VENV)/demo.stamp bytecode
	$(BIN)/hsa analyze --port 9300 fixtures/paper

test: $(VENV)/dev.stamp bytecode tools
	$(BIN)/python -m pytest -n auto

test-fast: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n auto -m 'not slow'

check: static test

static: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/test_layout.py

format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/dev.stamp bytecode tools
	$(BIN)/python -m benchmarks

accuracy: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks.accuracy || true
	$(BIN)/python -m benchmarks.leave_one_out
	$(BIN)/python -m benchmarks.rerun || true

# An installed package comes with its bytecode; a checkout gets it here, whatever PYTHONDONTWRITEBYTECODE says.
bytecode: $(VENV)/demo.stamp
	@$(BIN)/python -m compileall -q hsa capture dissectors analysis replay

# The tests compare with tshark, and run sessions through nginx. Where they cannot be installed the tests that need them
# skip and say so; in CI (CI set) that is a failure.
tools:
	@missing=; for tool in $(APT_PACKAGES); do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get -qq update && apt-get -qq install -y --no-install-recommends $$missing >/dev/null; } || true; \
	fi; \
	for tool in $$missing; do command -v $$tool >/dev/null && continue; \
	  echo "make: $$tool is not installed: tests that need it $${CI:+would }skip"; \
	  if [ -n "$${CI:-}" ]; then exit 1; fi; done

$(VENV)/bin/python:
	@[ -n "$(PYTHON)" ] || { echo "make: needs Python 3.11 or later (make PYTHON=/path/to/python)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "make: $(PYTHON) cannot make virtual environments (Debian and Ubuntu: apt install python3-venv)"; exit 1; }

$(VENV)/demo.stamp: pyproject.toml | $(VENV)/bin/python
	@echo 'installing hsa into $(VENV)'
	@$(PIP) install --editable . $(QUIETLY)
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(VENV)/bin/python
	@echo 'installing hsa and what its tests need into $(VENV)'
	@$(PIP) install --editable '.[dev]' $(QUIETLY)
	@touch $@ $(VENV)/demo.stamp

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
