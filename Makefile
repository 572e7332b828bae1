# Every target sets up .venv by itself: torch first, then the tools, then stator with its C extensions.

PYTHON  ?= python3.11
VENV    := .venv
BIN     := $(VENV)/bin
TORCH   := torch==2.13.0
WORKERS ?= 2

CSRC := setup.py $(shell find csrc -name '*.[ch]' 2>/dev/null)

.PHONY: all setup test lint bench demo clean
all: test

setup: $(VENV)/.built

$(VENV)/.torch:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH) "setuptools>=77"
	touch $@

$(VENV)/.tools: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    $$($(BIN)/python -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; print(*extras['test'], *extras['lint'])")
	touch $@

$(VENV)/.built: $(VENV)/.tools $(CSRC)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

test: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m benchmarks.run $(ARGS)

demo: setup
	$(BIN)/python -m demo $(ARGS)

clean:
	rm -rf build src/*.egg-info src/stator/*.so .pytest_cache .mypy_cache .ruff_cache $(VENV)/.built
	find src tests benchmarks demo -name __pycache__ -prune -exec rm -rf {} +
