# How Mizzen is built and checked. It needs make and a Python of at least 3.11, nothing else:
# everything comes, by exact version and hash, from requirements/dev.lock into .venv.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first of these that runs and is new enough; `make PYTHON=/path/to/python3.12 .venv` chooses another.
CANDIDATES := python3.11 python3.12 python3.13 python3
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in $(CANDIDATES); do \
	if "$$name" -c '$(IS_NEW_ENOUGH)' >/dev/null 2>&1; then echo "$$name"; break; fi; done)

BIN := .venv/bin
PACKAGES := .venv/packages.stamp
STAMP := .venv/project.stamp
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Tests start hundreds of processes. Where this is set, as it is in many containers, each of them would compile all anew.
unexport PYTHONDONTWRITEBYTECODE
# One more than there are cores: while one waits for real processes, the others go on. On two cores a seventh faster than with two.
WORKERS ?= 3
RUN_ARGS ?=
PYTEST_ARGS ?=
# The seeds of the swarm that the gate plays; `make swarm SEEDS=1000` plays more. The seconds of one differ, its outcome does not.
SEEDS ?= 300
SEEDS_OF_SOAK := 5000
LOCKS := requirements/planner.lock requirements/dev.lock requirements/run.lock
# The tool that writes the locks is not needed to use them, so it has a home of its own.
LOCK_BIN := .venv-lock/bin
UV_VERSION := 0.13.8

.PHONY: help .venv run lint types layers unit test swarm soak bench format lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[.a-z]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.venv: $(STAMP) ## make the environment, or bring it up to date with the lock

# Two stamps, each written last, so that a broken installation is tried again. A new lock makes the
# environment afresh, for then nothing stays behind that the lock no longer names.
$(PACKAGES): requirements/dev.lock
	@if [ -z "$(PYTHON)" ] || ! "$(PYTHON)" -c '$(IS_NEW_ENOUGH)'; then \
		echo "Mizzen needs Python 3.11 or newer; tried: $(or $(PYTHON),$(CANDIDATES))." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.12 .venv" >&2; exit 1; fi
	@if ! "$(PYTHON)" -c 'import ensurepip' >/dev/null 2>&1; then \
		echo "$(PYTHON) cannot make environments: its venv package is missing (Debian: python3-venv)." >&2; \
		exit 1; fi
	"$(PYTHON)" -m venv --clear .venv
	$(PIP) --require-hashes -r requirements/dev.lock
	@touch $@

$(STAMP): $(PACKAGES) pyproject.toml
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# Tasks find `python` on the path of whoever started the plane: here the one that has numpy and mizzen.
run: $(STAMP) ## the whole at work: real processes, a real gang, kills; a minute, and a summary
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mizzen up scenarios/library/first_light.yaml $(RUN_ARGS)

lint: $(STAMP) ## style: ruff's rules and its format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## types: mypy, strict
	$(BIN)/mypy

layers: $(STAMP) ## imports point down, the core is pure: import-linter
	$(BIN)/lint-imports

unit: $(STAMP) ## the tests alone; PYTEST_ARGS="-k name -x" narrows them
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow" $(PYTEST_ARGS)

# What takes one core for a while runs beside the tests, and is told behind them. Meanwhile one process compiles the tests, with their
# assertions: in a fresh clone every worker would do that for itself, for twelve seconds each.
test: lint ## lint, types, layers, all tests but the slow ones
	@told="$$(mktemp)"; failed=0; \
	$(MAKE) --no-print-directory types layers >"$$told" 2>&1 & beside=$$!; \
	$(BIN)/python -m pytest --collect-only --quiet --quiet >/dev/null 2>&1 || true; \
	$(MAKE) --no-print-directory unit || failed=1; \
	wait $$beside || failed=1; \
	cat "$$told"; rm -f "$$told"; exit $$failed

# Two processes, whatever the number of cores: seeds are told apart by whether they are even. However long it takes, all are played.
swarm: $(STAMP) ## planes drawn from seeds 1 to 300, each checked whole; SEEDS=1000 draws more
	$(BIN)/mizzen scenario swarm --seeds $(SEEDS) --minutes 1000 --no-shrink --workers 2

soak: $(STAMP) ## every test, the slow ones too, with longer patience; then 5,000 seeds of the swarm
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --timeout 1800 $(PYTEST_ARGS)
	$(MAKE) --no-print-directory swarm SEEDS=$(SEEDS_OF_SOAK)

bench: $(STAMP) ## measure; one table out
	$(BIN)/python -m bench all

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The widest set is solved first; the narrower ones are held to its versions, so all three agree.
# One version to a Python and a platform, with every hash, and no word of where it came from.
lock: ## solve the versions again: requirements/*.lock
	[ -n "$(PYTHON)" ] && "$(PYTHON)" -m venv .venv-lock
	$(LOCK_BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	rm -f $(LOCKS)
	$(call compile,planner,--extra planner --extra fast --extra gpu --extra plots --extra dev)
	$(call compile,dev,--extra fast --extra gpu --extra dev --constraints requirements/planner.lock)
	$(call compile,run,--extra planner --extra fast --extra gpu --constraints requirements/planner.lock)

compile = $(LOCK_BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock" $(2) \
	pyproject.toml requirements/build.in --output-file requirements/$(1).lock

clean: ## remove what was built; logs in .mizzen stay
	rm -rf .venv .venv-lock .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
