# Needs Python 3.11 or later. `make setup` brings the rest.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
BENCHMARKS := pair tasks handoff handover fight crowd hold server guard together service idle costs http web scale
ON_EVERY_ENGINE := pair tasks handoff handover fight hold together service idle costs
OTHERS := $(filter-out redis __init__,$(basename $(notdir $(wildcard benchmarks/against/*.py))))

# Set on some machines. Then each process of pytest, and each Python that a test starts, compiles
# lockfast and the tests again: to collect those of `make quick` takes 7 to 9 s of a processor, not 2.4.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
HOURS ?= 8
.PHONY: help setup tools pins check quick test wide models faults torture bench docs clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: tools ## Create .venv, install the tools and the servers the tests start
	scripts/install-servers
	npm ci --prefix tests/web

# Packages with these hashes only, and no source that would build with other packages. lockfast itself
# has no hash, so it comes after them, and is built by the hatchling that is one of them.
PINNED := $(BIN)/python -m pip install -q --require-hashes --only-binary :all:
OURS := $(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .

tools: $(BIN)/python ## Create .venv and install the tools: enough for make check and make docs
	$(PINNED) -r requirements-dev.txt
	$(OURS)
	$(BIN)/python -m pip check

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Versions that are written already stay: `make pins RENEW=--upgrade` takes the newest ones. uv is not
# in .venv. The version of Python is the oldest, with the packages that only its first releases need.
PINS := uv pip compile -q --generate-hashes --no-annotate --python-version 3.11 \
	--custom-compile-command 'make pins' $(RENEW) pyproject.toml
QUICK_EXTRAS := cli etcd mysql postgres redis redlock remote testing zookeeper

pins: ## Write requirements-*.txt: every package by version and hashes; after `pip install uv`
	$(PINS) --all-extras --group dev -o requirements-dev.txt
	$(PINS) $(addprefix --extra ,$(QUICK_EXTRAS)) --group quick -c requirements-dev.txt -o requirements-quick.txt
	$(PINS) --group release -o requirements-release.txt

# `make quick` needs these, and no more. `make setup` has them too.
QUICK := tests/unit tests/typing tests/contract/test_memory.py tests/contract/test_redis.py
# They start many processes, or measure: `make test` has them.
NOT_QUICK := $(addprefix tests/unit/test_,benchmarks.py plan.py servers.py smoke.py tries.py) tests/unit/cli/test_watchdog.py
# Fewer examples of each property, no long histories against the reference model, no measurement.
FEWER := --hypothesis-profile=quick -k 'not the_engine_and_the_reference_model_agree and not a_hundred_thousand_cost'
# Guards and integrations need their frameworks' types: `make check` has those.
TYPES := -p lockfast.claims -p lockfast.primitives -p lockfast.core -p lockfast.runtime -p lockfast.engines

$(VENV)/quick: requirements-quick.txt pyproject.toml | $(BIN)/python
	$(PINNED) -r requirements-quick.txt
	$(OURS)
	command -v redis-server >/dev/null || scripts/install-servers redis-server
	touch $@

quick: $(VENV)/quick ## After every edit, in about a minute: unit tests, the contract on memory and Redis, types
	$(BIN)/ruff check -q
	@$(BIN)/mypy $(TYPES) & types=$$!; \
	$(BIN)/python -m pytest -q -n 8 $(FEWER) $(addprefix --ignore=,$(NOT_QUICK)) $(QUICK); tests=$$?; \
	wait $$types && exit $$tests

check: ## Lint, formatting, types, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# Tests use a fifth of a processor and wait for the rest of the time, so six at once keep two cores
# busy. Those of ALONE interrupt at every step, or have leases of half a second. What is run
# again: see tests/tries.py. `python -m tests.cost` names the files that cost most.
TRIES := $(BIN)/python -m tests.tries
AT_ONCE := 6
ALONE := tests/interrupts tests/clients

# The asyncio half of the contract, once more on uvloop, and its blocking half under gevent, as
# Celery's pool has it. Not with xdist, whose workers are not patched, but beside it.
ON_UVLOOP := --uvloop -q -k 'asyncio or Bodies'
ON_GEVENT := --gevent -q -k threads
LOOPS := tests/contract/test_redis.py

test: ## Run the tests, on real servers that they start themselves
	$(TRIES) -n $(AT_ONCE) --durations=30 -m 'not wide' $(addprefix --ignore=,$(ALONE) tests/wide) \
		--and $(ON_UVLOOP) --each $(LOOPS) --and $(ON_GEVENT) --each $(LOOPS)
	$(TRIES) -m 'not wide' $(ALONE)

wide: ## What CI leaves out: every engine on uvloop, every Python, other versions of the servers
	LOCKFAST_TEST_BATCH=8 $(TRIES) -n 4 tests/contract/test_memory.py tests/contract/test_redis.py
	LOCKFAST_TEST_BATCH=off $(TRIES) -n 4 tests/contract/test_postgres.py tests/contract/test_etcd.py
	$(TRIES) $(ON_UVLOOP) -n $(AT_ONCE) tests/contract
	$(TRIES) $(ON_GEVENT) --each tests/contract/test_postgres.py
	$(TRIES) -n 2 -m wide --ignore=tests/wide
	$(TRIES) -n $(AT_ONCE) tests/wide
	$(BIN)/python scripts/pythons.py
	$(BIN)/python -m scripts.server_versions

models: ## Check the models of the protocol, those that must be refuted too
	$(BIN)/python -m spec

# As root: servers and clients are hosts of their own, in network namespaces. The models and the
# simulation only compute. They get what the scenarios leave of the processors: more than a third.
SPARE := chrt --idle 0
COMPUTED := build/robustness/computed.log

faults: ## Every model, 5,000 seeds of the simulation, 20 storms, real faults on every engine, mutants
	@mkdir -p $(dir $(COMPUTED))
	@{ $(SPARE) $(BIN)/python -m spec && \
	$(SPARE) $(BIN)/python -m tests.robustness.simulation --seeds 5000 && \
	$(SPARE) $(BIN)/python -m tests.robustness.simulation --redlock --seeds 100 && \
	$(SPARE) $(BIN)/python -m tests.robustness.simulation --batched --seeds 400 && \
	$(SPARE) $(BIN)/python -m tests.robustness.simulation --replicas --seeds 500 && \
	$(SPARE) $(BIN)/python -m tests.robustness.simulation --storm --seeds 20; } >$(COMPUTED) 2>&1 & \
	computed=$$!; $(BIN)/python -m tests.robustness ci && $(BIN)/python -m tests.robustness killed && \
	$(BIN)/python -m tests.robustness controls; \
	real=$$?; wait $$computed; computed=$$?; cat $(COMPUTED); test $$real = 0 -a $$computed = 0

torture: ## Faults on every engine with seed after seed, for HOURS=8; goes on behind the last seed
	$(BIN)/python -m tests.robustness torture --hours $(HOURS) $(if $(SEED),--seed $(SEED))

# One after another, even under -j: two at once would measure each other.
bench: ## Run each benchmark in turn, one JSON result each
	@set -e; for name in $(BENCHMARKS); do \
		$(BIN)/python -m benchmarks $$name --engine redis --json; \
	done; \
	for engine in $(OTHERS); do for name in $(ON_EVERY_ENGINE); do \
		$(BIN)/python -m benchmarks $$name --engine $$engine --json; \
	done; done

docs: ## Build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

watch: ## Measure the steady ratios of benchmarks/steady.toml again: is lockfast slower than it was?
	$(BIN)/python -m benchmarks.watch

.PHONY: watch pages pythons release rehearse
pages: ## Follow the README, every how-to page and every migration page from the wheel, in empty environments
	$(BIN)/python -m pytest tests/docs/test_pages.py tests/docs/test_engine_pages.py tests/docs/test_tutorial.py

pythons: ## Unit tests and the contract on memory and Redis, on every other Python from 3.11 on
	$(BIN)/python scripts/pythons.py $(PYTHONS)

# As releases are made: of a commit, with nothing that is not in it. It publishes nothing. While
# pyproject.toml has no address of the repository, only the rehearsal works.
release: ## Build the packages twice, check them, try the wheel in empty environments; into dist
	$(BIN)/python -m release

rehearse: ## make release without an address of the repository: not for publishing
	$(BIN)/python -m release --rehearse

clean: ## Remove what builds and checks leave behind; .venv stays
	rm -rf build dist docs/_build .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
