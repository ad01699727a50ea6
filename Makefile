# Every target creates .venv by itself; nothing but Python 3.11 or newer and make is needed.
PYTHON ?= python3
BIN := .venv/bin
# what was compiled once is kept, whatever the shell says: tests start Python many times
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: env demo test check processes kernels course slow browser chromium wheel oldest bench docs site site-check clean studies

env: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regard needs Python 3.11 or newer; call make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(INSTALL) -e '.[check]'
	touch $@

demo: env
	$(BIN)/regard demo --out demo-run

test: env
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

# only files that have such tests are read
processes: env
	$(BIN)/python -m pytest -m processes -n 2 --dist worksteal -q $$(grep -rlF mark.processes tests --include='test_*.py')

course: env
	$(BIN)/python -m pytest -m course -q tests/course

# Triton's interpreter rewrites functions, which a checker of shapes has wrapped in the other lanes;
# make kernels EVERY=3 runs about a third of the tests
EVERY := 1
kernels: .venv/triton/triton
	PYTHONPATH=.venv/triton $(BIN)/python -m pytest -m kernels -n 2 --dist worksteal -q \
	  -o addopts="--strict-markers --strict-config --import-mode=importlib" tests/kernels --every $(EVERY)

# apart from the other packages, since the CUDA build of torch brings a Triton of its own
.venv/triton/triton: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target .venv/triton 'triton==3.9.0'

check: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# what users install, on top of nothing: the wheel alone, then with each extra
wheel: env
	$(BIN)/python tests/clean_install.py

# warnings of old versions are theirs; docs/openapi.json is as the tested FastAPI writes it, and
# Pillow before 13 says nothing of corrupt EXIF data
oldest: .venv/oldest/installed
	.venv/oldest/bin/python -m pytest -n 2 --dist worksteal -q -o filterwarnings=default -W ignore \
	  --deselect tests/serving/test_observability.py::test_the_schema_file_is_what_the_server_says \
	  --deselect tests/data/test_pictures.py::test_unreadable_exif_is_a_note_and_no_refusal

.venv/oldest/installed: .venv/installed
	$(PYTHON) -m venv .venv/oldest
	.venv/oldest/bin/pip install --quiet --disable-pip-version-check $$($(BIN)/python tests/lowest_versions.py test) -e .
	touch $@

studies: env
	$(BIN)/python -m pytest -n 2 --dist worksteal -q studies/tests

slow: .venv/triton/triton
	$(BIN)/python -m pytest -m slow -q
	$(BIN)/python tests/mutations.py

browser: env chromium
	$(BIN)/python -m pytest -m browser -n 2 --dist worksteal -q tests/browser tests/plots

chromium:
	command -v "$${CHROMIUM:-chromium}" >/dev/null || command -v chromium-browser >/dev/null || { \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } || { \
	  echo "a browser is needed: install Debian's package 'chromium' as root, or say CHROMIUM=/path/to/it" >&2; \
	  exit 1; }

bench: env
	$(BIN)/regard bench attention

docs: env
	$(BIN)/python docs/build.py

site: .venv/site
	$(BIN)/python docs/site/build.py

site-check: site chromium
	$(BIN)/python -m pytest -m site -q tests/site

.venv/site: .venv/installed
	$(INSTALL) -e '.[site]'
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
