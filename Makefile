# `make` alone lists the targets. A line `##@` opens a group of them, `##` after a target describes it.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
PYTHON := $(BIN)/python
# both paths go through shells and kernel command lines
ifneq ($(words $(CURDIR))$(findstring ',$(CURDIR))$(findstring ",$(CURDIR)),1)
$(error clone to a folder whose path has no space and no quote in it, not to $(CURDIR))
endif
ifneq ($(filter-out /%,$(XDG_CACHE_HOME))$(findstring ',$(XDG_CACHE_HOME))$(findstring ",$(XDG_CACHE_HOME)),)
$(error set XDG_CACHE_HOME to an absolute path without a space or quote, not to $(XDG_CACHE_HOME))
endif
ifeq ($(HOME),)
export HOME := $(shell unset HOME; echo ~)
endif
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/schedkit

# what tests and rigs run ends when make does, even when make is killed. For that make must start them
# itself: such a recipe line is one plain command that needs no shell, or begins with `exec`
LEASHED := setpriv --pdeathsig TERM

NODES ?= 0
KERNEL ?= 7
CMD ?= uname -a

# as typed: make would read the shell's $(...) as its own
export VM_COMMAND := $(value CMD)
# make would export what stands on its command line itself, expanded: $(shell …) would run on the host
unexport CMD
MAKEOVERRIDES =
export PYTHONPATH := $(CURDIR)/tests
# where rigs find uv, also when the machine has none
export UV := $(CURDIR)/tools/uv
export UV_PYTHON_DOWNLOADS := never
# what is fetched is kept in our cache alone, so that `distclean` leaves nothing
export UV_CACHE_DIR := $(CACHE)/uv
export PIP_NO_CACHE_DIR := 1

.PHONY: help
help:
	@awk -f tools/help.awk $(MAKEFILE_LIST)

##@ Work on the code

.PHONY: setup
setup: .venv/.ready ## make .venv, with schedctl and sked in it

.venv/.ready: pyproject.toml uv.lock tools/uv tools/uv-requirements.txt
	$(UV) sync --frozen --quiet
	@touch $@

.PHONY: format
format: setup ## format the code and mend what ruff can
	$(BIN)/ruff check --quiet --fix-only src tests tools benchmarks
	$(BIN)/ruff format src tests tools benchmarks

.PHONY: manifests
manifests: setup ## write the CRD and its reference anew, from the types
	$(PYTHON) tools/manifests.py

.PHONY: generate
generate: manifests ## rewrite everything that is generated
	$(PYTHON) tools/generate.py

.PHONY: lint
lint: setup ## formatting, lint, types, import direction, generated parts
	$(BIN)/ruff format --quiet --diff src tests tools benchmarks
	$(BIN)/ruff check --quiet src tests tools benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(PYTHON) tools/manifests.py --check
	$(PYTHON) tools/generate.py --check

.PHONY: check
check: lint ## lint and unit tests: what every commit passes (seconds)
	$(LEASHED) $(PYTHON) -m pytest -q tests/unit

##@ Test on real parts (the first run fetches and builds them into the cache)

.PHONY: test
test: lint ## every tier: unit, contract, cluster, kernel, e2e
	$(LEASHED) $(PYTHON) -m rig fetch
	$(LEASHED) $(PYTHON) -m pytest tests

.PHONY: test-full
test-full: lint ## every tier on every kind of kernel, and what is too long for CI
	$(LEASHED) $(PYTHON) -m rig fetch
	$(LEASHED) $(PYTHON) -m pytest --full --kernels all tests

.PHONY: test-e2e
test-e2e: setup ## only the e2e tier: kubelets in VMs, joined to a control plane
	$(LEASHED) $(PYTHON) -m rig fetch
	$(LEASHED) $(PYTHON) -m pytest tests/e2e

.PHONY: test-kernels
test-kernels: setup ## only the kernel tier, on every kind of kernel
	$(LEASHED) $(PYTHON) -m rig fetch
	$(LEASHED) $(PYTHON) -m pytest --full --kernels all tests/kernel

##@ Try it by hand

.PHONY: demo
demo: setup ## boot a VM, attach a scheduler, and show what its kernel says before, during and after
	$(LEASHED) $(PYTHON) -m rig demo

.PHONY: cluster
cluster: setup ## start a control plane until Ctrl-C; NODES=2 adds nodes in VMs
	$(LEASHED) $(PYTHON) -m rig cluster --nodes $(NODES)

.PHONY: vm
vm: setup ## run CMD='uname -a' in a VM; KERNEL=7 picks the kernel
	exec $(LEASHED) $(PYTHON) -m rig vm --kernel $(KERNEL) -- "$$VM_COMMAND"

##@ Measure

.PHONY: bench-cluster
bench-cluster: setup ## the operator beside a peer in Go and the API server's limits; BENCH='-o json' and sizes
	$(LEASHED) $(PYTHON) -m benchmarks.cluster $(BENCH)

##@ Tidy up

.PHONY: clean
clean: ## delete what was made inside this clone
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## clean, and delete the cache
	rm -rf "$(CACHE)"
