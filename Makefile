# The two commands of the README, and the pieces they are made of. Needs Python 3.11 or later and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: demo test lint check bench bench-kernels bench-linear bench-saddle figures clean

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

bench: $(VENV)/installed-bench ## compare with the peers: make bench ARGS="--data DIR"
	$(BIN)/python benchmarks/compare.py $(ARGS)

bench-kernels: $(VENV)/installed-bench ## the table of the kernel machines: make bench-kernels ARGS="--data DIR"
	$(BIN)/python benchmarks/kernels.py $(ARGS)

bench-linear: $(VENV)/installed-bench ## the table of the linear machines: make bench-linear DATA=DIR
	$(BIN)/python benchmarks/linear.py --data $(DATA) $(ARGS)
	$(BIN)/python benchmarks/robustness.py --data $(DATA)
	$(BIN)/python benchmarks/regret.py --data $(DATA)
	$(BIN)/python benchmarks/path.py --data $(DATA)
	$(BIN)/python benchmarks/streaming.py

bench-saddle: $(VENV)/installed-bench ## the distance of two hulls, hard margin and nu-SVM: make bench-saddle DATA=DIR
	$(BIN)/python benchmarks/saddle.py $(if $(DATA),--data $(DATA)) $(ARGS)

figures: $(VENV)/installed-test ## redraw the figures of docs/, about five minutes
	$(BIN)/python examples/losses.py
	$(BIN)/python examples/planets.py
	$(BIN)/python examples/more_data_less_work.py
	$(BIN)/python examples/communication.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[cli]"
	touch $@

$(VENV)/installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	touch $@ $(VENV)/installed

$(VENV)/installed-bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
