# `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

PYTHON := .venv/bin/python

# where tests find uv, also when the machine has none
export UV := $(CURDIR)/tools/uv
export UV_PYTHON_DOWNLOADS := never
export PYTHONPATH := tests

.PHONY: setup
setup: .venv/.ready  ## make .venv, with schedctl and sked in it

.venv/.ready: pyproject.toml uv.lock tools/uv tools/uv-requirements.txt
	$(UV) sync --frozen --quiet
	@touch $@
