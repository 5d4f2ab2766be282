# The two commands of the README, and the pieces they are made of. Needs Python 3.11 or later and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
PEERS := $(abspath $(VENV))/peers
TO_FOLDER := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target

.PHONY: demo test test-sklearn test-ecosystem lint check bench bench-kernels bench-linear bench-leastsquares peers attack attack-faults bench-saddle bench-clients figures clean

demo: $(VENV)/installed ## install, then train and certify a model on bundled data
	$(BIN)/maxmargin demo

test: $(VENV)/installed-test lint check ## install, then run every check

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

check: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

SECONDS ?= 3600
SEED ?= 0
attack: $(VENV)/installed-test ## nasty problems, every solver, an exact judge: make attack SECONDS=3600 SEED=7
	$(BIN)/python -u tests/attack/attack.py --seconds $(SECONDS) --seed $(SEED) $(ARGS)

attack-faults: $(VENV)/installed-test ## damaged files, wrong commands, signals: make attack-faults SECONDS=1800 SEED=7
	$(BIN)/python -u tests/faults/attack_faults.py --seconds $(SECONDS) --seed $(SEED)

test-sklearn: $(VENV)/installed-test ## scikit-learn's own tests with our classes, about ten minutes: make test-sklearn ARGS="-k kernel"
	$(BIN)/python tests/sklearn_suite/run.py -n $(JOBS) $(ARGS)

test-ecosystem: $(VENV)/installed-ecosystem ## the packages that people use our estimators with
	$(BIN)/python -m pytest -p no:cacheprovider tests/test_neighbours.py -n $(JOBS)

bench: $(VENV)/installed-bench ## compare with the peers: make bench ARGS="--data DIR"
	$(BIN)/python benchmarks/compare.py $(ARGS)

bench-kernels: $(VENV)/installed-bench ## the table of the kernel machines: make bench-kernels ARGS="--data DIR"
	$(BIN)/python benchmarks/kernels.py $(ARGS)

# Each of the five tables is printed even if the one before failed.
files = $(if $(OUT),--json $(OUT)/$(1).json --markdown $(OUT)/$(1).md)
bench-linear: $(VENV)/installed-bench peers ## the tables of the linear machines: make bench-linear DATA=DIR OUT=DIR
	$(if $(OUT),mkdir -p $(OUT))
	-$(BIN)/python benchmarks/linear.py --data $(DATA) $(call files,linear) $(ARGS)
	-$(BIN)/python benchmarks/robustness.py --data $(DATA) $(call files,robustness)
	-$(BIN)/python benchmarks/regret.py --data $(DATA) $(call files,regret)
	-$(BIN)/python benchmarks/path.py --data $(DATA) $(call files,path)
	-$(BIN)/python benchmarks/streaming.py $(call files,streaming)

# Peers that cannot be installed beside the others get folders of their own; without them the rest is compared.
peers: $(VENV)/installed-bench
	-test -d $(PEERS)/liblinear-multicore || $(TO_FOLDER) $(PEERS)/liblinear-multicore liblinear-multicore
	-test -d $(PEERS)/sklearn-contrib-lightning || { $(TO_FOLDER) $(PEERS)/tools cython "setuptools<80" wheel && \
	PYTHONPATH=$(PEERS)/tools $(TO_FOLDER) $(PEERS)/sklearn-contrib-lightning --no-build-isolation sklearn-contrib-lightning; }

bench-leastsquares: $(VENV)/installed-bench ## LASSO, elastic net, ridge: make bench-leastsquares [DATA=DIR]
	$(BIN)/python benchmarks/leastsquares.py $(if $(DATA),--data $(DATA)) $(ARGS)

bench-saddle: $(VENV)/installed-bench ## the distance of two hulls, hard margin and nu-SVM: make bench-saddle DATA=DIR
	$(BIN)/python benchmarks/saddle.py $(if $(DATA),--data $(DATA)) $(ARGS)

bench-clients: $(VENV)/installed-test ## one process against several, on MPI and on Dask
	$(BIN)/python benchmarks/clients.py $(ARGS)
	$(BIN)/python benchmarks/clients.py --solver newton $(ARGS)

figures: $(VENV)/installed-test ## redraw the figures of docs/, about seven minutes
	$(BIN)/python examples/house.py
	$(BIN)/python examples/losses.py
	$(BIN)/python examples/planets.py
	$(BIN)/python examples/optimality.py
	$(BIN)/python examples/complexity.py
	$(BIN)/python examples/sparse_paths.py
	$(BIN)/python examples/least_squares.py
	$(BIN)/python examples/lasso_ridge.py
	$(BIN)/python examples/stochastic.py
	$(BIN)/python examples/convergence.py
	$(BIN)/python examples/pictures.py
	$(BIN)/python examples/primal_dual.py
	$(BIN)/python examples/more_data_less_work.py
	$(BIN)/python examples/accuracy_and_margin.py
	$(BIN)/python examples/communication.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[cli]"
	touch $@

$(VENV)/installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	touch $@ $(VENV)/installed

$(VENV)/installed-ecosystem: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,ecosystem]"
	touch $@ $(VENV)/installed $(VENV)/installed-test

$(VENV)/installed-bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
