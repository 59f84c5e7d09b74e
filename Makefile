PYTHON ?= python3

BIN := .venv/bin
ENVIRONMENT := .venv/.complete
BROWSER := .venv/.browser
DOCS := .venv/.docs
JAX := plugins/costcore-jax
STABLEHLO := plugins/costcore-stablehlo
JAX_ENVIRONMENT := $(JAX)/.venv/.complete
JAX_PYTHON := $(JAX)/.venv/bin/python
READERS := coreml kernels openvino tflite
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt

# Tests in as many processes as there are cores, four at most, as each may take 3 GB; `make test WORKERS=` uses one.
WORKERS ?= --numprocesses auto --maxprocesses 4 --dist worksteal

WITH_JAX := $(shell $(PYTHON) -c "import sys; print('yes' * (sys.version_info >= (3, 11)))")

.DEFAULT_GOAL := help
.PHONY: help demo demo-jax test test-all test-jax test-stablehlo test-readers $(READERS:%=test-%) test-probes probes test-browser test-matrix chromium check format details docs golden bundle benchmark clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1 \t/p' $(MAKEFILE_LIST) | expand -t 24

demo: $(ENVIRONMENT) ## count one network in every framework; demo-jax counts it in JAX
	@$(BIN)/python examples/vgg16_everywhere.py
	@echo "make demo-jax counts VGG16 in JAX too, in an environment of its own (800 MB)"

demo-jax: $(JAX_ENVIRONMENT) ## count the same network in JAX
	@$(JAX_PYTHON) $(JAX)/examples/vgg16.py

test: check ## run the checks and the tests of a change; all three frameworks must be installed
	COSTCORE_TEST_FRONTENDS=pytorch,chainer,onnx $(BIN)/python -m pytest -q $(WORKERS) -m "not slow"

# Tests in environments of their own use one process each: two at a time, each printed when it has ended. The
# environments are built before, one at a time, as each writes metadata of this folder.
test-all: check ## run every test: also slow ones, and those of the plug-ins, each in an environment of its own
	COSTCORE_TEST_FRONTENDS=pytorch,chainer,onnx $(BIN)/python -m pytest -q $(WORKERS)
	@[ -n "$(WITH_JAX)" ] || echo "the plug-ins for JAX and StableHLO are not tested: JAX needs Python 3.11"
	@$(MAKE) --no-print-directory $(WITH_JAX:%=$(JAX_ENVIRONMENT)) $(READERS:%=plugins/costcore-%/.venv/.complete) probes/.venv/.complete
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target $(WITH_JAX:%=test-jax test-stablehlo) test-readers test-probes

test-jax: $(JAX_ENVIRONMENT) ## run the tests of the plug-in for JAX, in an environment of its own
	cd $(JAX) && .venv/bin/python -m pytest -q

test-stablehlo: $(JAX_ENVIRONMENT) ## run the tests of the plug-in for StableHLO, in the same environment
	cd $(STABLEHLO) && ../costcore-jax/.venv/bin/python -m pytest -q

test-readers: $(READERS:%=test-%) ## run the tests of the plug-ins that read files, each in an environment of its own

$(READERS:%=test-%): test-%: plugins/costcore-%/.venv/.complete
	cd plugins/costcore-$* && .venv/bin/python -m pytest -q

test-probes: probes/.venv/.complete ## run the tests of the probes, in an environment without any framework
	cd probes && .venv/bin/python -m pytest -q

test-browser: $(BROWSER) chromium ## open the HTML page and the search of the site in a headless Chromium (installed automatically for root on Debian)
	$(BIN)/python -m pytest -q tests/browser

test-matrix: ## run every test with each pair of PyTorch and Python, one at a time; PAIRS="2.15.0/3.13" for some
	$(PYTHON) tools/test_matrix.py --pairs "$(PAIRS)"

chromium:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { \
	    echo "the browser tests need the programs chromium and chromedriver; please install them" >&2; exit 1; }; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null; }

check: $(ENVIRONMENT) ## format, lint, types, generated documentation, architecture
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/python tools/make_details_md.py --check
	$(BIN)/python -m pytest -q tests/test_architecture.py

format: $(ENVIRONMENT) ## format the code
	$(BIN)/ruff format -q .
	$(BIN)/ruff check -q --fix .

details: $(ENVIRONMENT) ## write DETAILS.md from the calculators
	$(BIN)/python tools/make_details_md.py

docs: $(DOCS) ## build the documentation site in build/site; a link that leads nowhere is an error
	$(BIN)/python tools/make_site.py

PROBE_TOOLS := $(patsubst %,probes/environments/%/.venv/.complete,torch jax tensorflow)
PROBES := PYTHONPATH=probes $(BIN)/python -m costcore_probes.cli

probes: $(ENVIRONMENT) ## ask every counter the probes, and write docs/scoreboard.md and its data
	-@$(MAKE) --no-print-directory --keep-going $(PROBE_TOOLS)
	$(PROBES) run --output docs/scoreboard.json --timeout 120 --jobs 2 \
	  --python probes/environments/torch/.venv/bin/python --python xla=probes/environments/jax/.venv/bin/python \
	  --python tf_profiler=probes/environments/tensorflow/.venv/bin/python --python costcore=$(BIN)/python
	$(PROBES) page docs/scoreboard.json --output docs/scoreboard.md

golden: $(ENVIRONMENT) ## regenerate the expected outputs of tests and README; review the diff before you commit it
	$(BIN)/python -m pytest -q --overwrite

bundle: ## bundle the parts of d3 that the HTML page uses, in the versions of tools/d3/package.json (needs npm)
	npm install --prefix tools/d3 --no-package-lock --no-audit --no-fund --loglevel=error
	npm run --prefix tools/d3 build

benchmark: $(ENVIRONMENT) ## compute the figures of this release: docs/figures.md, docs/speed.json, and its file in docs/figures
	$(BIN)/python benchmarks/speed.py --output docs/speed.json
	$(BIN)/python tools/benchmark.py

clean: ## remove the environment and everything that was built
	rm -rf .venv plugins/*/.venv probes/.venv probes/environments/*/.venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.git/*' -exec rm -rf {} +

# Chainer has no wheel. Its build needs pkg_resources, which setuptools 81 dropped; torch needs 77.0.3 or newer.
# torch is installed first and by its exact version; otherwise pip would pull in the CUDA packages, several GB.
$(ENVIRONMENT): pyproject.toml constraints.txt
	@echo "building the environment in .venv; this takes a few minutes once"
	@$(PYTHON) -m venv .venv
	@$(INSTALL) torch==2.13.0
	@$(INSTALL) "setuptools>=77.0.3,<81" wheel numpy
	@$(INSTALL) --no-build-isolation chainer
	@$(INSTALL) --upgrade setuptools
	@$(INSTALL) --no-build-isolation --editable ".[torch,onnx,dev]"
	@touch $@

# An environment of its own, as the other tests expect the frontends of this repository only.
$(JAX_ENVIRONMENT): $(JAX)/pyproject.toml $(STABLEHLO)/pyproject.toml pyproject.toml constraints.txt
	@echo "building the environment of the JAX plug-in in $(JAX)/.venv"
	@$(PYTHON) -m venv $(JAX)/.venv
	@$(JAX_PYTHON) -m pip install -qq --disable-pip-version-check --constraint constraints.txt \
	  --editable . --editable "$(JAX)[dev]" --editable "$(STABLEHLO)[dev]"
	@touch $@

# The same for plug-ins that need no framework.
plugins/%/.venv/.complete: plugins/%/pyproject.toml pyproject.toml constraints.txt
	@echo "building the environment of plugins/$*"
	@$(PYTHON) -m venv plugins/$*/.venv
	@plugins/$*/.venv/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt \
	  --editable . --editable "plugins/$*[dev]"
	@touch $@

probes/.venv/.complete: probes/pyproject.toml
	@echo "building the environment of the probes"
	@$(PYTHON) -m venv probes/.venv
	@probes/.venv/bin/python -m pip install -qq --disable-pip-version-check --editable "probes[dev]"
	@touch $@

# The tools under test. DeepSpeed and thop build from source beside an installed torch, so without isolation.
probes/environments/%/.venv/.complete: probes/environments/%/requirements.txt
	@echo "building the environment of the tools in probes/environments/$*"
	@$(PYTHON) -m venv probes/environments/$*/.venv
	@[ $* != torch ] || probes/environments/$*/.venv/bin/python -m pip install -qq --disable-pip-version-check \
	  torch==2.13.0 setuptools wheel
	@probes/environments/$*/.venv/bin/python -m pip install -qq --disable-pip-version-check --no-build-isolation \
	  -r probes/environments/$*/requirements.txt
	@touch $@

$(BROWSER): $(DOCS)
	@$(INSTALL) --no-build-isolation --editable ".[browser]"
	@touch $@

$(DOCS): $(ENVIRONMENT)
	@$(INSTALL) --no-build-isolation --editable ".[docs]"
	@touch $@
