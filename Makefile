# Every target works on a fresh machine with git, make and python3 with pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PIP_LOG := $(VENV)/pip.log
STAMP := $(VENV)/.installed
RUN_STAMP := $(VENV)/.installed-to-run
# Without a lock file of its own, running uses the versions that development uses.
RUN_LOCK := $(firstword $(wildcard requirements-run.lock) requirements.lock)
# Compile once: several processes read these files, and where Python is told not to keep bytecode, hundreds would.
# Two processes more than there are cores: many tests wait for a time limit, not for the processor.
PYTEST := $(BIN)/python -m compileall -q -x '/test_[^/]*[.]py' src tests && PYTHONDONTWRITEBYTECODE= \
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 2)) --dist worksteal
NEEDS := 'import sys; sys.version_info >= (3, 11) or sys.exit("Trilogue needs Python 3.11 or newer; this is " \
	+ sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...")'
# Write .venv/bin/trilogue for the sources here. pip would need the build backend, which running does not.
COMMAND := 'import os, sys, sysconfig; from pathlib import Path; \
	Path(sysconfig.get_path("purelib"), "trilogue-source.pth").write_text(os.path.abspath("src") + "\n"); \
	command = Path(sys.executable).with_name("trilogue"); \
	command.write_text("\#!/bin/sh\n\"exec\" \"" + sys.executable + "\" \"$$0\" \"$$@\"\nfrom trilogue.__main__ import main\nmain()\n"); \
	command.chmod(0o755)'
# What failed, in one line: pip prints a page.
define NOT_INSTALLED
{ if grep -qE 'from versions: none|No matching distribution|NewConnectionError|Max retries' $(PIP_LOG); \
	then echo "Cannot install the packages: pip finds no package index that has them. Connect to a network, or name a" \
		"mirror: PIP_INDEX_URL=https://... make ... (what pip said is in $(PIP_LOG))"; \
	else echo "Cannot install the packages: $$(grep -m1 ^ERROR $(PIP_LOG)) (all that pip said is in $(PIP_LOG))"; fi >&2; \
	exit 1; }
endef

.DEFAULT_GOAL := help
.PHONY: help setup run test test-all test-slow test-runs nginx javascript lint style types tests docs bench bench-quick bench-docs bench-core \
	bench-state bench-cluster lock clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Create .venv with the locked dependencies and the package (other targets do this for you)

$(BIN)/python:
	@$(PYTHON) -c $(NEEDS)
	@echo "Creating $(VENV)"
	@said=$$($(PYTHON) -m venv $(VENV) 2>&1) || { rm -rf $(VENV); \
		case "$$said" in *ensurepip*|*"No module named venv"*) \
			echo "$(PYTHON) cannot create a virtual environment: install its venv package (Debian: apt install python3-venv)" ;; \
			*) echo "$(PYTHON) cannot create $(VENV): $$said" ;; esac >&2; exit 1; }

$(STAMP): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing $$(grep -c '^[a-z].*==' requirements.lock) packages for development into $(VENV), about a minute:"
	@$(PIP) install --require-hashes -r requirements.lock >$(PIP_LOG) 2>&1 || $(NOT_INSTALLED)
	@$(PIP) install --no-deps --no-build-isolation -e . >$(PIP_LOG) 2>&1 || $(NOT_INSTALLED)
	@$(BIN)/python -m compileall -q src  # also where Python is told not to: it would compile again at every start
	@touch $@ $(RUN_STAMP)

$(RUN_STAMP): $(RUN_LOCK) pyproject.toml | $(BIN)/python
	@echo "Installing $$(grep -c '^[a-z].*==' $(RUN_LOCK)) packages to run the gateway into $(VENV):"
	@$(PIP) install --require-hashes -r $(RUN_LOCK) >$(PIP_LOG) 2>&1 || $(NOT_INSTALLED)
	@$(BIN)/python -c $(COMMAND)
	@$(BIN)/python -m compileall -q src
	@touch $@

run: $(RUN_STAMP) ## Start the gateway and print how to connect; make run PORT=8080
	@$(BIN)/trilogue serve $(if $(PORT),--port $(PORT)) $(if $(HOST),--host $(HOST)) $(if $(CONFIG),--config $(CONFIG))

test: style ## Lint, check the types and run the tests
	@$(MAKE) --no-print-directory -j 2 types tests

test-all: ## Run `make test`, then the slow tests: browser, several machines, JavaScript, kill and restart
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-slow

test-slow: $(STAMP) nginx javascript ## Run what `make test` leaves out
	$(PYTEST) -m "slow and not smoke"
	$(BIN)/python -m tests.machines.soak --minutes 1 --nodes 3

test-runs: $(BIN)/python ## Run `make test` six times in fresh clones, with several Pythons; RUNS="--help" shows how
	$(BIN)/python -m tests.repeat $(RUNS)

# Debian installs it into a folder that is only on root's PATH. Without it, tests that need it are skipped and say so.
nginx:
	@PATH=$$PATH:/usr/sbin command -v nginx >/dev/null || { [ "$$(id -u)" = 0 ] \
		&& apt-get install -y -qq --no-install-recommends nginx-light >/dev/null 2>&1; } \
		|| echo "nginx is not installed (Debian: apt install nginx-light)"

# The official JavaScript SDK, for tests. Without it they are skipped and say so.
JAVASCRIPT := tests/multiturn/javascript
javascript: ## Install the official JavaScript SDK, which slow tests use
	@[ $(JAVASCRIPT)/node_modules/.package-lock.json -nt $(JAVASCRIPT)/package-lock.json ] || { command -v npm >/dev/null \
		&& npm ci --fetch-retries=0 --fetch-timeout=20000 --silent --no-audit --no-fund --prefix $(JAVASCRIPT) >/dev/null 2>&1; } \
		|| echo "the JavaScript SDK is not installed: it needs node, npm and their registry"

lint: style types ## Check style, format and types

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

tests: $(STAMP)
	$(PYTEST)

DOCS_VENV := .venv-docs
$(DOCS_VENV)/.installed: PIP_LOG := $(DOCS_VENV)/pip.log
$(DOCS_VENV)/.installed: website/requirements.lock
	@$(PYTHON) -c $(NEEDS)
	@$(PYTHON) -m venv $(DOCS_VENV)
	@echo "Installing $$(grep -c '^[a-z].*==' website/requirements.lock) packages for the documentation into $(DOCS_VENV):"
	@$(DOCS_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes \
		-r website/requirements.lock >$(PIP_LOG) 2>&1 || $(NOT_INSTALLED)
	@touch $@

docs: $(DOCS_VENV)/.installed ## Build the documentation as a site, in build/site
	@cd website && NO_MKDOCS_2_WARNING=1 ../$(DOCS_VENV)/bin/mkdocs build --quiet
	@echo "Open build/site/index.html"

bench: $(STAMP) ## Compare with other gateways; also growth, core, pool and start (half an hour)
	$(BIN)/python -m benchmarks $(BENCH)
	$(BIN)/python -m benchmarks.core
	$(BIN)/python -m benchmarks.pool
	$(BIN)/python -m benchmarks.startup $(BENCH)

bench-quick: $(STAMP) ## Compare the gateway with nginx, and measure observers, in under two minutes
	$(BIN)/python -m benchmarks --quick $(BENCH)

bench-docs: $(STAMP) ## Compare with other gateways and write docs/performance.*
	$(BIN)/python -m benchmarks --docs $(BENCH)

bench-core: $(STAMP) ## Measure the core: decode, encode and translate
	$(BIN)/python -m benchmarks.core

bench-state: $(STAMP) ## Measure the store of responses, and what storing costs a request
	$(BIN)/python -m benchmarks.state
	$(BIN)/python -m benchmarks.stored

bench-cluster: $(STAMP) nginx ## Measure several gateways: cost, agreement, recovery, ten minutes of killing (20 minutes)
	$(BIN)/python -m benchmarks.cluster
	$(BIN)/python -m tests.cluster.report
	$(BIN)/python -m tests.machines.revoking
	$(BIN)/python -m tests.machines.recovery
	$(BIN)/python -m tests.machines.soak --minutes 10 --nodes 4

COMPILE := CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links

lock: $(STAMP) ## Regenerate the lock files
	$(COMPILE) --extra dev --output-file requirements.lock pyproject.toml
	$(COMPILE) --constraint requirements.lock --output-file requirements-run.lock pyproject.toml
	$(COMPILE) --constraint requirements.lock --extra cluster --extra sso --extra otel \
		--output-file requirements-image.lock pyproject.toml
	$(COMPILE) --output-file website/requirements.lock website/requirements.in

clean: ## Remove .venv and everything that tools have created
	rm -rf $(VENV) $(DOCS_VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist .bench
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
