# Every target makes the virtual environment it needs; nothing has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
# Processes that run tests: one for each core, but each may start a Java that takes a gigabyte.
TESTERS ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores < 2 ? 2 : cores > 4 ? 4 : cores)))

.DEFAULT_GOAL := help
.PHONY: help install demo serve test test-core crash spark-crash lint bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

install: $(COMPILED) ## make .venv with Tidelog and its development tools

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tidelog needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	@# Debian keeps venv in a package of its own; root may have it installed, others are told.
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq python3-venv; } || { echo "The venv module of $(PYTHON) is missing; on Debian: sudo apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# Python keeps bytecode by itself, but not where PYTHONDONTWRITEBYTECODE is set, as it is in many
# containers: there each start would compile 140 files, which takes longer than all the rest of it.
$(COMPILED): $(INSTALLED) $(shell find protocol broker tidelog -name '*.py')
	@$(BIN)/python -m compileall -q protocol broker tidelog
	@touch $@

demo: $(COMPILED) ## ship a real log file through a broker, kill it, show nothing is lost; stream and archive it with Spark
	$(BIN)/python -m tidelog.demo tests/data/loghub/OpenSSH_2k.log

serve: $(COMPILED) ## run the daemon with its defaults; data in ./tidelog-data
	$(BIN)/tidelog serve

# pytest keeps the tests that it has compiled only if Python may: 20 s of each later run.
test test-core: export PYTHONDONTWRITEBYTECODE =
test: $(COMPILED) ## run all tests
	$(BIN)/python -m pytest -n $(TESTERS) --dist worksteal

test-core: $(COMPILED) ## run all tests but those with Spark: no Java is started
	$(BIN)/python -m pytest -n $(TESTERS) --dist worksteal --ignore tests/spark

CRASH_SCALE ?= 10
crash: $(COMPILED) ## the crash tests of `make test` at length: 300 rounds of kill -9, ten times the seeds
	TIDELOG_CRASH_SCALE=$(CRASH_SCALE) $(BIN)/python -m pytest tests/crash -n $(TESTERS) --dist worksteal -o timeout=7200

SPARK_CRASH_SEEDS ?= 20
spark-crash: $(COMPILED) ## drivers of Spark jobs killed with -9 at 20 seeded moments
	TIDELOG_SPARK_CRASH_SEEDS=$(SPARK_CRASH_SEEDS) $(BIN)/python -m pytest tests/spark/crash -o timeout=600

lint: $(INSTALLED) ## ruff, mypy strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(COMPILED) ## measure; prints tables with ratios to floors of the same run
	$(BIN)/python -m bench

clean: ## remove what make and the tools have made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
