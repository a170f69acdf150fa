# `make` alone lists the targets. A line `##@` opens a group of them, `##` after a target describes it.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
ifeq ($(MAKECMDGOALS),check)
# lint beside the tests; the words of each stay together, and lint's come first
MAKEFLAGS += --jobs=2 --output-sync=target
endif

BIN := .venv/bin
PYTHON := $(BIN)/python
# both paths go through shells and kernel command lines
ifneq ($(words $(CURDIR))$(findstring ',$(CURDIR))$(findstring ",$(CURDIR)),1)
$(error clone to a folder whose path has no space and no quote in it, not to $(CURDIR))
endif
ifeq ($(HOME),)
export HOME := $(shell unset HOME; echo ~)
endif
CACHES := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
ifneq ($(words $(CACHES))$(filter-out /%,$(CACHES))$(findstring ',$(CACHES))$(findstring ",$(CACHES)),1)
$(error set $(if $(XDG_CACHE_HOME),,HOME or )XDG_CACHE_HOME to an absolute path without a space or quote, not to $(CACHES))
endif
CACHE := $(CACHES)/schedkit

# what make runs ends when make does, even when make is killed. For that make must start it
# itself: such a recipe line is one plain command that needs no shell, or begins with `exec`
LEASHED := setpriv --pdeathsig TERM
# progress is for a person: MAKE_TERMERR is empty unless make's stderr is a terminal
QUIET := $(if $(MAKE_TERMERR),,--quiet)
# where make keeps words together, pytest writes to a file, even when a person reads them in the end
COLOR := $(if $(MAKE_TERMOUT),--color=yes)

NODES ?= 0
KERNEL ?= 7
TIMEOUT ?= 600
CMD ?= uname -a
NAME ?=
VERSION ?=

# the operator's image, and what to build it from and with; empty: the tools choose, or ask
IMG ?=
export CONTAINER_TOOL ?=
BASE ?=
PYTHON_VERSION ?= 3.11

# as typed: make would read the shell's $(...) as its own
export RIG_NODES := $(value NODES)
export RIG_KERNEL := $(value KERNEL)
export RIG_TIMEOUT := $(value TIMEOUT)
export RIG_COMMAND := $(value CMD)
export RIG_NAME := $(value NAME)
test-kubernetes: export RIG_KUBERNETES := $(value VERSION)
export OPERATOR_IMAGE := $(value IMG)
export OPERATOR_BASE := $(value BASE)
export OPERATOR_PYTHON := $(value PYTHON_VERSION)
# make would export what stands on its command line itself, expanded: $(shell …) would run on the host
unexport NODES KERNEL TIMEOUT CMD NAME VERSION IMG BASE PYTHON_VERSION
MAKEOVERRIDES =
export PYTHONPATH := $(CURDIR)/tests
# every command that a test starts would compile all it imports anew
unexport PYTHONDONTWRITEBYTECODE
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
# compiled once: guests start these programs hundreds of times, and cannot keep what they compile
	$(LEASHED) $(UV) sync --frozen --compile-bytecode $(QUIET)
	@touch $@

.PHONY: format
format: setup ## format the code and mend what ruff can
	$(LEASHED) $(BIN)/ruff check --quiet --fix-only src tests tools benchmarks
	$(LEASHED) $(BIN)/ruff format src tests tools benchmarks

.PHONY: manifests
manifests: setup ## write the CRD, its reference and the RBAC anew, from their sources
	$(LEASHED) $(PYTHON) tools/manifests.py

.PHONY: generate
generate: manifests catalog ## rewrite everything that is generated
	$(LEASHED) $(PYTHON) tools/generate.py

.PHONY: lint
lint: setup ## formatting, lint, types, import direction, generated parts
	$(LEASHED) $(BIN)/ruff format --quiet --diff src tests tools benchmarks
	$(LEASHED) $(BIN)/ruff check --quiet src tests tools benchmarks
	$(LEASHED) $(BIN)/mypy
	$(LEASHED) $(BIN)/lint-imports --no-logo
	$(LEASHED) $(PYTHON) tools/manifests.py --check
	$(LEASHED) $(PYTHON) tools/catalog.py --check
	$(LEASHED) $(PYTHON) tools/generate.py --check

.PHONY: docs
docs: setup ## build the documentation into build/docs; a broken link is an error
	$(LEASHED) $(UV) run --frozen --isolated --only-group docs zensical build --strict --clean

.PHONY: test-unit
# more workers than cores: many of the tests wait for a clock
test-unit: setup ## only the unit tier, with fewer examples of each property than `test`
	$(LEASHED) $(PYTHON) -m pytest -q $(COLOR) -n 3 --dist worksteal --hypothesis-profile=quick tests/unit

.PHONY: check
check: lint test-unit ## lint and unit tests, side by side: what every commit passes (under 45 seconds)

##@ Test on real parts (the first run fetches and builds them into the cache)

.PHONY: test
test: lint docs ## every tier: unit, contract, cluster, kernel, e2e
	$(LEASHED) $(PYTHON) -m rig fetch
	$(LEASHED) $(PYTHON) -m pytest tests

.PHONY: test-full
test-full: lint docs ## every tier on every kind of kernel, and what is too long for CI
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

.PHONY: test-kubernetes
test-kubernetes: setup ## only the cluster tier, on another Kubernetes: VERSION=1.30, the oldest that is supported
	@$(LEASHED) $(PYTHON) -m rig kubernetes
	$(LEASHED) $(PYTHON) -m pytest tests/cluster

.PHONY: test-breakages
test-breakages: setup ## break src in a copy, one line after another, and see a test fail for each; BREAKAGES='--tier unit'
	$(LEASHED) $(PYTHON) -m rig fetch
	$(LEASHED) $(PYTHON) -m breakages $(BREAKAGES)

.PHONY: fuzz
fuzz: setup ## broken inputs by the million through every parser and verifier; FUZZ='--seed 2 --inputs 50000'
	$(LEASHED) $(PYTHON) -m rig.fuzz $(FUZZ)

##@ Try it by hand

.PHONY: demo
demo: setup ## the operator with a node in a VM: a SchedExt until its kernel says so, and a scheduler that is ejected
	@$(LEASHED) $(PYTHON) -m rig demo

.PHONY: demo-kernel
demo-kernel: setup ## boot a VM, attach a scheduler, and show what its kernel says before, during and after
	@$(LEASHED) $(PYTHON) -m rig demo-kernel

.PHONY: cluster
cluster: setup ## run a cluster until Ctrl-C, with NODES=0..2 nodes in VMs (0), each up within TIMEOUT=SECONDS (600)
	@exec $(LEASHED) $(PYTHON) -m rig cluster --nodes="$$RIG_NODES" --timeout="$$RIG_TIMEOUT"

.PHONY: vm
vm: setup ## run CMD='uname -a' in a VM, with KERNEL=6|7|none (7), for TIMEOUT=SECONDS (600) at most
	@exec $(LEASHED) $(PYTHON) -m rig vm --kernel="$$RIG_KERNEL" --timeout="$$RIG_TIMEOUT" -- "$$RIG_COMMAND"

##@ Install the operator into the cluster that kubectl points at

.PHONY: docker-build
docker-build: setup ## build the operator's image IMG=registry/repository:tag; CONTAINER_TOOL=, BASE=, PYTHON_VERSION=
	$(LEASHED) $(PYTHON) tools/image.py

.PHONY: install
install: setup ## install the CRDs alone
	$(LEASHED) $(PYTHON) tools/installation.py install

.PHONY: run
# probes of a manager on a desk are nobody else's business
run: export SKED_HEALTH_PROBE_BIND_ADDRESS ?= 127.0.0.1:8081
run: install ## run the manager from here, until Ctrl-C
	$(LEASHED) $(BIN)/sked manager

.PHONY: uninstall
uninstall: setup ## remove the CRDs, and with them every SchedExt
	$(LEASHED) $(PYTHON) tools/installation.py uninstall

.PHONY: deploy
deploy: setup ## install everything, with the image IMG=…
	$(LEASHED) $(PYTHON) tools/installation.py deploy

.PHONY: undeploy
undeploy: setup ## remove everything, and with the CRDs every SchedExt
	$(LEASHED) $(PYTHON) tools/installation.py undeploy

.PHONY: build-installer
build-installer: setup ## write what `deploy` applies to dist/install.yaml; needs IMG=…
	$(LEASHED) $(PYTHON) tools/installation.py build-installer

##@ Look after the catalog

.PHONY: catalog
catalog: setup ## write the shipped catalog and the recipes' Containerfiles anew, from recipes/
	$(LEASHED) $(PYTHON) tools/catalog.py

.PHONY: catalog-build
catalog-build: setup ## build the scheduler NAME=scx_… by its recipe, and its image into dist/catalog; 5 to 15 minutes
	@exec $(LEASHED) $(PYTHON) -m rig catalog-build --name="$$RIG_NAME"

.PHONY: catalog-measure
catalog-measure: setup ## measure in a VM what the scheduler NAME=scx_… needs, into its recipe; 5 to 15 minutes
	@exec $(LEASHED) $(PYTHON) -m rig catalog-measure --name="$$RIG_NAME"

##@ Measure

.PHONY: bench-cluster
bench-cluster: setup ## the operator beside a peer in Go and the API server's limits; BENCH='-o json' and sizes
	$(LEASHED) $(PYTHON) -m benchmarks.cluster $(BENCH)

.PHONY: bench-host
bench-host: setup ## schedctl beside the bare interpreter and podman; BENCH='-o json' and sizes
	$(LEASHED) $(PYTHON) -m benchmarks.host $(BENCH)

.PHONY: bench-node
bench-node: setup ## what an idle agent costs its node and the API server; BENCH='-o json' and sizes
	$(LEASHED) $(PYTHON) -m benchmarks.node $(BENCH)

.PHONY: bench-trust
bench-trust: setup ## verification beside `cosign verify` of the same image; BENCH='-o json' and rounds
	$(LEASHED) $(PYTHON) -m benchmarks.trust $(BENCH)

##@ Tidy up

.PHONY: clean
clean: ## delete what was made inside this clone
	rm -rf .venv dist build .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## clean, and delete the cache
	rm -rf "$(CACHE)"
