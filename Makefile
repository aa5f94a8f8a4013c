# The README's two commands are `make compare` and `make test`.
# Everything is installed into the virtual environment $(VENV) and nowhere else.

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?=                 # constraints.txt installs the very versions that were tried
PYTEST_ARGS ?=
CORE_TESTS ?= tests/policies tests/solvers tests/mechanism tests/simulator  # those that need no extra

POLICIES ?= fifo,agnostic(fifo),isolated,agnostic(max_min_fairness),max_min_fairness,max_sum_throughput
TRACE ?= gavel_msr_e13805
TABLE ?= simulation
CLUSTER ?= v100=12,p100=12,k80=12
SEED ?=                        # one seed of simulate or chaos; LOG=FILE makes simulate write every event and command
SEEDS ?= 0:200
LOG ?=
KEEP ?=                        # a folder that keeps what runs of chaos leave
VIRTUAL ?=                     # chaos on virtual time: messages alone, and a second a run
WORKERS ?= 2
PROCESSES ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 2) * 2)))  # of tests; some of them wait for real jobs
BENCH ?=                       # families and options of python -m benchmarks
EXPERIMENTS ?= --jobs 2        # options of python -m experiments

CORE := $(VENV)-core
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAIN := $(addprefix --constraint ,$(strip $(CONSTRAINTS)))

unexport PYTHONDONTWRITEBYTECODE  # which containers set; hundreds of processes of tests import the same modules
.DEFAULT_GOAL := help
.PHONY: help compare test test-quick test-core test-gpu simulate chaos check bench experiments deployed proto format clean

help:  ## show this list
	@echo "gavelx: what make can do"
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo "variables, with their defaults: PYTHON=$(PYTHON) VENV=$(VENV) TRACE=$(TRACE) CLUSTER=$(CLUSTER)"

compare: $(VENV)/.core  ## compare policies on a real trace: a table here, a plot and a page in out/
	@mkdir -p out
	$(BIN)/gavelx compare --policies "$(POLICIES)" --trace $(TRACE) --skip-unrunnable --table $(TABLE) --cluster $(CLUSTER) \
	  --html out/compare.html --png out/compare.png --json out/compare.json

test: $(VENV)/.dev  ## run every test
	@tests/install_packages.sh
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal $(PYTEST_ARGS)

test-quick: $(VENV)/.dev  ## run the tests that take no time, for the loop of daily work
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n auto -m "not slow" $(PYTEST_ARGS)

test-gpu: $(VENV)/.dev  ## try on this machine's GPU what could not be seen without one
	TEST_GPU=1 $(BIN)/python -m pytest tests/gpu $(PYTEST_ARGS)

test-core:  ## run the tests of policies, solvers and simulator where no extra is installed
	@$(MAKE) --no-print-directory VENV=$(CORE) $(CORE)/.testing
	$(CORE)/bin/python -m pytest -n auto $(CORE_TESTS) $(PYTEST_ARGS)

simulate: $(VENV)/.core  ## simulate small clusters where everything goes wrong (SEED=7, or SEEDS=0:2000), and audit them
	$(BIN)/python -m tests.swarm $(if $(SEED),--seed $(SEED) $(if $(LOG),--log $(LOG)),--seeds $(SEEDS) --workers $(WORKERS))

chaos: $(VENV)/.dev  ## run real services, agents and jobs while all of them are killed, cut off, frozen (SEED=7, or SEEDS=0:50)
	$(BIN)/python -m tests.faults --seeds $(if $(SEED),$(SEED),$(SEEDS)) $(if $(VIRTUAL),--virtual) $(if $(KEEP),--keep $(KEEP))

check: $(VENV)/.dev  ## check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.bench  ## time policies against their published formulations (BENCH="million --pairs 9")
	$(BIN)/python -m benchmarks $(BENCH) --json benchmarks/results/latest.json --results-md

experiments: $(VENV)/.core  ## simulate the published figures; goes on where it stopped (EXPERIMENTS="--only makespan")
	$(BIN)/python -m experiments $(EXPERIMENTS)

deployed: $(VENV)/.dev  ## run a trace and real training jobs on a cluster on loopback, beside the simulator (10 minutes)
	$(BIN)/python -m experiments.deployed.emulated
	$(BIN)/python -m experiments.deployed.real

proto: $(VENV)/.dev  ## make the code of the wire anew from gavelx/rpc/wire.proto
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. gavelx/rpc/wire.proto

format: $(VENV)/.dev  ## put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove what make made
	rm -rf .venv .venv-core out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: an environment is made once, and again only when pyproject.toml changes.

$(VENV)/.pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gavelx needs Python 3.11 or later, and '$(PYTHON)' is not; try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1'  # the first pip that knows --group
	@touch $@

$(VENV)/.core: pyproject.toml | $(VENV)/.pip
	$(PIP) install --quiet $(CONSTRAIN) --editable .
	@touch $@

$(VENV)/.testing: pyproject.toml | $(VENV)/.core
	$(PIP) install --quiet $(CONSTRAIN) --editable ".[testing]" pytest-xdist
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.core
	$(PIP) install --quiet $(CONSTRAIN) --editable . --group dev
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.dev
	$(PIP) install --quiet $(CONSTRAIN) --editable . --group dev --group bench
	@touch $@
