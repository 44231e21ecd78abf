.DEFAULT_GOAL := help
.PHONY: help setup tools suites demo recorded test sim reached chaos soak bench check audit fuzz asan format clean

BIN := .venv/bin
# Four processes share the tests, by whole files: four also on two cores, because tests wait as well as compute. A run
# of selected tests (ARGS) uses one process, because it does not need what four cost to start.
SHARED := -n 4 --dist loadfile --no-loadscope-reorder

help: ## show this
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what is missing: Java, MariaDB, gcc, .venv (PYTHON=python3.12 chooses the interpreter)
	@scripts/setup.sh

demo: ## start shards, merge them, watch the stream (ARGS="--help" for options)
	@scripts/setup.sh $(if $(filter --zookeeper,$(ARGS)),,$(if $(filter --files,$(ARGS)),files,demo))
	@$(BIN)/python -m playground $(ARGS)

recorded: setup ## record again the binlogs that `canal-group demo --files` reads
	@$(BIN)/python -m playground.record

tools: setup
	@scripts/get-test-tools.sh

test: tools ## run the tests, without those of `make soak` (ARGS="tests/unit -k batch" for some)
	$(BIN)/python -m pytest $(or $(ARGS),$(SHARED))

sim: setup ## run a seed's faults around the real shell in simulated time (SEED=7; SEEDS=1000 runs that many, from SEED on)
	@PYTHONPATH=tests $(BIN)/python -m simulation --seed $(or $(SEED),1) --seeds $(or $(SEEDS),1) $(ARGS)

reached: setup ## run seeds, and print the branches of the deciding code that none of them has reached (SEEDS=300 SEED=1; ARGS="--rare 5")
	@PYTHONPATH=tests $(BIN)/python -m simulation.reached $(if $(SEEDS),--seeds $(SEEDS)) --seed $(or $(SEED),1) $(ARGS)

chaos: setup ## kill, pause and disconnect real processes by a seed's schedule (SEED=7 MINUTES=2; ARGS="--schedule")
	@PYTHONPATH=tests $(BIN)/python -m chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),2) $(ARGS)

suites: setup
	@scripts/get-ddl-suites.sh

soak: tools suites ## run the long tests, then seeds of chaos for some minutes (MINUTES=20 SEED=1; LIMIT=6 SHUFFLE=x: some tests, for 6 minutes)
	CANAL_GROUP_ALL_CASES=1 $(BIN)/python -m pytest -m "soak or property" --timeout 960 $(SHARED) $(if $(LIMIT),--limit-minutes $(LIMIT) --shuffle "$(SHUFFLE)")
	@PYTHONPATH=tests $(BIN)/python -m chaos --seed $(or $(SEED),1) --minutes $(if $(filter 1,$(MINUTES)),1,2) \
		--soak $(or $(MINUTES),20) $(ARGS)

bench: setup ## measure: group, latency, transport, rpc, checksum and more (ARGS="group --json" for one)
	@$(BIN)/python -m benchmarks $(or $(ARGS),all)

check: setup ## lint, formatting, types, import contracts, words that are not used, known vulnerabilities of dependencies
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/python scripts/words.py
	@$(BIN)/python scripts/audit.py

audit: setup ## check the versions in constraints.txt against a vulnerability database
	@$(BIN)/python scripts/audit.py

fuzz: setup ## damage binlogs, compare random rows with SELECT (MINUTES=1 SEEDS=20), and play new sequences of DDL
	@PYTHONPATH=tests $(BIN)/python -m support.binlog.fuzz $(or $(MINUTES),1)
	CANAL_GROUP_SEEDS=$(or $(SEEDS),20) CANAL_GROUP_ALL_CASES=1 $(BIN)/python -m pytest \
		--hypothesis-profile=chance tests/integration/binlog/test_differential.py tests/unit/binlog/snapshot \
		tests/unit/binlog/schema/test_sql.py tests/property/test_snapshot_cursor.py
	CANAL_GROUP_EXPLORE=1 $(BIN)/python -m pytest -m "soak or not soak" \
		tests/integration/binlog/test_catalog.py tests/integration/binlog/test_random_ddl.py

asan: setup ## read damaged rows events and binlogs with a decoder compiled with AddressSanitizer
	@scripts/asan.sh

format: setup ## format, and fix what ruff can fix
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

clean: ## remove the files that tools leave behind; .venv stays
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
