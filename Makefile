# Everything that is done with this project. `make` alone prints what there is.
#
# Nothing needs an activated environment: each target uses the tools in .venv, and makes that first if it must.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The classes of Spark for the JVMs of tests, which start in 60 % of the time with it.
CLASSES := $(VENV)/spark-classes.jsa
EXTRAS := spark,demo,test,lint,bench

# Passed on to pytest and to the programs, as in: make test PYTEST_ARGS="-k window", make demo DEMO_ARGS="--seconds 20"
PYTEST_ARGS ?=
# Test files that run side by side; 0 for none beside the other, as a debugger needs it.
TEST_PROCESSES ?= 2
# The oldest and the newest Spark that pyproject.toml admits, and the tests that show whether another one will do.
SPARK_VERSIONS ?= 4.1 4.3
SPARK_VERSION_TESTS := tests/conformance/test_every_runtime.py tests/cli/test_bad_input_spark.py \
  tests/runtime/test_spark_event_time.py tests/runtime/test_spark_stops.py
# Images for each case, and bits, of the tests that draw damage.
POWER_LOSSES ?= 200
BIT_FLIPS ?= 1000
# As in: make chaos CHAOS_ARGS="--shape tree-budget --seed 7 --actions 10000"
CHAOS_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
# As in: make experiments EXPERIMENTS="spill early" EXPERIMENT_ARGS=--quick
EXPERIMENTS ?= plans spill early migration placement balancing ring
EXPERIMENT_ARGS ?=

SOURCES := src tests benchmarks experiments chaos examples tools
# Files in the order of tests/conftest.py, which has those that take long come first.
PYTEST_OPTIONS := -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder --durations=25 --durations-min=1
PYTEST := $(BIN)/python -m pytest $(PYTEST_OPTIONS)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-spark test-spark-versions test-power-loss test-bit-rot test-two-drivers chaos lint fmt golden settings bench bench-migration experiments clean

##@ Start here
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo

setup: $(STAMP) ## Make .venv with the package, its tools and the test dependencies; see to Java 17+
	@tools/ensure-java

demo: setup ## Join stock prices, volumes and reviews for a minute, and check the answer (DEMO_ARGS)
	@$(BIN)/watersmeet demo $(DEMO_ARGS)

##@ Check
test: setup lint $(CLASSES) ## Lint, then all tests (PYTEST_ARGS)
	$(PYTEST) -m "not campaign" $(PYTEST_ARGS)

test-fast: $(STAMP) ## The tests that start no JVM (PYTEST_ARGS)
	$(PYTEST) -m "not spark and not campaign" $(PYTEST_ARGS)

test-spark: setup $(CLASSES) ## The tests that start a JVM (PYTEST_ARGS)
	$(PYTEST) -m "spark and not campaign" $(PYTEST_ARGS)

test-campaign: setup $(CLASSES) ## More kills, failures and takeovers than make test has time for (PYTEST_ARGS)
	$(PYTEST) -m campaign $(PYTEST_ARGS)

test-spark-versions: $(SPARK_VERSIONS:%=build/spark-%/.installed) ## The same on other versions of Spark, a part of them (SPARK_VERSIONS, PYTEST_ARGS)
	@tools/ensure-java
	@for version in $(SPARK_VERSIONS); do \
	  build/spark-$$version/bin/python -c 'import pyspark; print("Spark", pyspark.__version__)' && \
	  build/spark-$$version/bin/python -m pytest $(PYTEST_OPTIONS) -m spark $(SPARK_VERSION_TESTS) $(PYTEST_ARGS) \
	  || exit 1; \
	done

test-power-loss: $(STAMP) ## Go on from many images of what a power loss may leave (POWER_LOSSES)
	WATERSMEET_POWER_LOSSES=$(POWER_LOSSES) $(BIN)/python -m pytest -s tests/chaos/test_power_loss.py $(PYTEST_ARGS)

test-bit-rot: $(STAMP) ## Flip many bits in the files of a checkpoint (BIT_FLIPS)
	WATERSMEET_BIT_FLIPS=$(BIT_FLIPS) $(BIN)/python -m pytest -s tests/chaos/test_bit_rot.py $(PYTEST_ARGS)

test-two-drivers: $(STAMP) ## Accidental second starts without a lock, 200 of them, on S3 and on a shared folder (PYTEST_ARGS)
	TWO_DRIVERS=100 $(PYTEST) tests/chaos/test_two_drivers.py $(PYTEST_ARGS)

chaos: $(STAMP) ## Random histories of runs that go wrong, judged row by row; minutes of them (CHAOS_ARGS)
	$(BIN)/python -m chaos $(CHAOS_ARGS)

lint: $(STAMP) ## ruff and mypy; changes nothing
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy

##@ Change
fmt: $(STAMP) ## Format the code, and mend what ruff can mend
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

golden: $(STAMP) ## Rewrite tests/golden; look at the diff before you commit it
	$(BIN)/python -m pytest -m "not spark" --update-golden $$(grep -rlwE --include='test_*.py' golden tests) $(PYTEST_ARGS)

settings: $(STAMP) ## Rewrite what follows from the declarations of settings: tables in the docs, types of arguments
	$(BIN)/python tools/write_settings.py

##@ Measure
bench: setup ## Rows a second, against Spark's own joins and against no join at all (BENCH_ARGS)
	$(BIN)/python -m benchmarks.throughput $(BENCH_ARGS)

bench-migration: setup ## What changes of the plan cost and gain, against no change and against a replay (BENCH_ARGS)
	$(BIN)/python -m benchmarks.migration $(BENCH_ARGS)

experiments: $(STAMP) ## Published experiments, each a page in bench-data/experiments (EXPERIMENTS, EXPERIMENT_ARGS)
	@for name in $(EXPERIMENTS); do \
	  $(BIN)/python -m experiments $$name --out bench-data/experiments/$$name $(EXPERIMENT_ARGS) || exit; done

##@ Tidy up
clean: ## Remove .venv, caches, and data of benchmarks and experiments
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist bench-data spark-warehouse
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info

# Made anew when pyproject.toml is newer. A .venv that is there is kept, and brought up to date.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Watersmeet needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1 || true)." >&2; \
	  echo "Install one, and name it if it is not python3: make PYTHON=python3.12 setup" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "The venv module of $(PYTHON) is missing. On Debian and Ubuntu: sudo apt-get install python3-venv" >&2; \
	  exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

# Tests do without where it cannot be made.
$(CLASSES): $(STAMP) | setup
	-@rm -f $@ && $(BIN)/python tools/share_classes.py $@

# A .venv for each version of Spark, with its newest release.
build/spark-%/.installed: pyproject.toml
	@test -x build/spark-$*/bin/python || $(PYTHON) -m venv build/spark-$*
	build/spark-$*/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable '.[spark,test]' 'pyspark==$*.*'
	@touch $@
