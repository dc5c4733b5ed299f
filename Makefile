# make setup | quick | test | nightly | simulate | fuzz | audits | mutants | lint | demo | docs | wheel | bench | papers | torture
# Needs python3 (3.11 or later) and make; nothing else first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo docs wheel quick unit test nightly simulate fuzz audits mutants lint bench papers torture clean
.DEFAULT_GOAL := help

help:  ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

setup: $(READY)  ## create .venv with everything that demo, test and bench use

$(READY): pyproject.toml bench/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Penstock needs Python 3.11 or later, this is " + sys.version.split()[0] + ": make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]' --editable ./bench
	@touch $(READY)

demo: $(READY)  ## publish a simulated city live, kill the publisher, write out/city.html, then serve it live
	$(BIN)/penstock lab city --out out/city

docs: $(READY)  ## the documentation site, links checked: out/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file site/mkdocs.yml

wheel: $(READY)  ## dist/: the sdist, and the wheel that is built from it
	$(BIN)/python -m build --outdir dist .

lint: $(READY)  ## ruff, mypy --strict, the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

QUICK := src tests/core tests/budget tests/private tests/released tests/engine tests/test_*.py

quick: $(READY)  ## lint, types, doctests and unit tests, about two minutes on two cores
	@$(MAKE) -j2 --output-sync=target --no-print-directory lint unit

unit: $(READY)
	$(BIN)/pytest -n auto --dist worksteal -m "not nightly and not slow" $(QUICK)

test: lint  ## lint, doctests and all tests but the nightly ones, about 16 minutes on two cores
	$(BIN)/pytest -n auto --dist worksteal

nightly: lint  ## all tests, with the long statistical runs (docs/how-to/test.md), 100,000 simulated worlds and all mutants
	$(BIN)/pytest -n auto --dist worksteal --hypothesis-profile=nightly --timeout=0 -m "nightly or not nightly"
	$(MAKE) --no-print-directory simulate SEEDS=100000
	$(MAKE) --no-print-directory audits
	$(MAKE) --no-print-directory mutants

SEEDS ?= 1000

simulate: $(READY)  ## whole publishers in simulated worlds: SEEDS=1000, SEEDS=5000-5999, or SEED=7 again
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

SECONDS ?= 600

fuzz: $(READY)  ## mutants of the corpus for every parser that strangers reach: SECONDS=600, FUZZ_SEED=1
	PENSTOCK_FUZZ_SECONDS=$(SECONDS) PENSTOCK_FUZZ_SEED=$(or $(FUZZ_SEED),0) $(BIN)/pytest -n 0 -p no:cacheprovider tests/fuzz

AUDITS ?= 20

audits: $(READY)  ## penstock audit --all with fresh seeds, and the exit of each: AUDITS=20, FORM=--quick
	@mkdir -p out/audits; failed=0; \
	for number in $$(seq $(AUDITS)); do \
	  seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); start=$$(date +%s); code=0; \
	  $(BIN)/penstock audit --all $(FORM) --seed $$seed --json --folder out/audits/kept >out/audits/$$seed.json || code=$$?; \
	  echo "$$number of $(AUDITS): penstock audit --all $(FORM) --seed $$seed: exit $$code, $$(($$(date +%s) - start)) s"; \
	  [ $$code -eq 0 ] || failed=1; \
	done; exit $$failed

mutants: $(READY)  ## faults in copies of the source, and who finds them: out/mutants.md; ONLY="budget/*"
	$(BIN)/python -m tests.mutants $(if $(ONLY),--only "$(ONLY)") --json out/mutants.json --report out/mutants.md

torture: $(READY)  ## kill a running publisher 500 times, with every source; PENSTOCK_KILLS says how often
	PENSTOCK_KILLS=$${PENSTOCK_KILLS:-500} $(BIN)/pytest -s -p no:cacheprovider tests/recovery

bench: $(READY)  ## speed, as ratios measured in one run
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/steps.py
	$(BIN)/python benchmarks/event_steps.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/ingest.py
	$(BIN)/python benchmarks/close.py
	$(BIN)/python benchmarks/snapshot.py
	$(BIN)/python benchmarks/fence.py
	$(BIN)/python benchmarks/restart.py
	$(BIN)/python benchmarks/http_source.py
	$(BIN)/python benchmarks/hostile_bodies.py
	$(BIN)/python benchmarks/slow_senders.py
	$(BIN)/python benchmarks/avro.py
	$(BIN)/python benchmarks/text_ids.py
	$(BIN)/python benchmarks/serve.py

papers: $(READY)  ## the papers' experiments at full size (an hour or two), and docs/results from them
	for suite in w-event rg pegasus hierarchy dsat eshp windows; do $(BIN)/penstock bench $$suite || exit 1; done
	$(BIN)/penstock bench report out/bench --docs docs/results

clean:  ## remove what was made
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
