.DEFAULT_GOAL := help
.PHONY: help setup demo recorded test sim chaos soak bench mutants check audit fuzz asan format clean

BIN := .venv/bin
# Three processes share the tests, a file as a whole: on two cores, for tests wait as well as compute. Some tests alone do
# not need what that costs.
SHARED := -n 3 --dist loadfile --no-loadscope-reorder

help: ## show this
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what is missing: Java, MariaDB, gcc, .venv (PYTHON=python3.12 chooses the interpreter)
	@scripts/setup.sh

demo: setup ## start shards, merge them, watch the stream (ARGS="--help" for options)
	@$(BIN)/canal-group demo $(ARGS)

recorded: setup ## record the binlogs anew that `canal-group demo --files` reads
	@$(BIN)/python -m canal_group.demo.record

test: setup ## run the tests, those of `make soak` left out (ARGS="tests/unit -k batch" for some)
	$(BIN)/python -m pytest $(or $(ARGS),$(SHARED))

sim: setup ## play a seed's faults around the real shell in simulated time (SEED=7; SEEDS=1000 for as many from there on)
	@PYTHONPATH=tests $(BIN)/python -m simulation --seed $(or $(SEED),1) --seeds $(or $(SEEDS),1) $(ARGS)

chaos: setup ## kill, pause and cut off real processes by a seed's schedule (SEED=7 MINUTES=2; ARGS="--schedule")
	@PYTHONPATH=tests $(BIN)/python -m chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),2) $(ARGS)

soak: setup ## run the tests that take long, then chaos over seeds for so long (MINUTES=60 SEED=1)
	$(BIN)/python -m pytest -m soak $(SHARED)
	@PYTHONPATH=tests $(BIN)/python -m chaos --seed $(or $(SEED),1) --minutes $(if $(filter 1,$(MINUTES)),1,2) \
		--soak $(or $(MINUTES),60) $(ARGS)

bench: setup ## measure: group, latency, transport, rpc, checksum and more (ARGS="group --json" for one)
	@$(BIN)/python -m benchmarks $(or $(ARGS),all)

mutants: setup ## put small faults into merge/ and tell which no test notices (MODULES="merge/order/pending.py" SAMPLE=200 SEED=7)
	@PYTHONPATH=tests $(BIN)/python -m mutants $(MODULES) --seed $(or $(SEED),1) $(if $(SAMPLE),--sample $(SAMPLE)) $(ARGS)

check: setup ## lint, formatting, types, import contracts, known faults of dependencies
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/python scripts/audit.py

audit: setup ## ask a database of known faults about the versions in constraints.txt
	@$(BIN)/python scripts/audit.py

fuzz: setup ## damage binlogs, and compare rows by chance with SELECT (MINUTES=1 SEEDS=20)
	$(BIN)/python tests/fuzz.py $(or $(MINUTES),1)
	CANAL_GROUP_SEEDS=$(or $(SEEDS),20) $(BIN)/python -m pytest tests/integration/parse/test_parse_differential.py

asan: setup ## run damaged rows events and binlogs through a decoder compiled with AddressSanitizer
	@scripts/asan.sh

format: setup ## format, and mend what can be mended
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

clean: ## remove what tools leave behind; .venv stays
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
