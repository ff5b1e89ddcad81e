# One command per task, the same on a fresh machine and in CI. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNTIME := $(VENV)/.runtime
PROTO := src/cairn/engine/abci/proto/abci.proto
UV := .tools/uv/bin/uv
UV_COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --no-header

.DEFAULT_GOAL := help
.NOTPARALLEL:
# Tests start nodes and commands by the hundred: without kept bytecode each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
export PYTHON
.PHONY: help setup dev check test test-all interop fmt clean simulate chaos kills shop soak flips prove-fuzz mutants \
	matrix bench docs generate pictures programs cometbft js lock release release-page image

help: ## List the commands
	@sed -nE 's/^##@ (.*)/\n\1/p; s/^([a-z%-]+):[^#]*## (.*)/  \1\t\2/p' Makefile | sed 's/%/NAME/' | expand -t 17

##@ Run and change it

# A node alone needs a quarter of what the tests need: who only wants to run one should not wait for the rest.
$(RUNTIME): requirements/runtime.txt requirements/build.txt pyproject.toml tools/setup.sh tools/uv.sh
	@VENV="$(VENV)" sh tools/setup.sh runtime
	@touch $@

$(STAMP): requirements/dev.txt requirements/build.txt pyproject.toml tools/setup.sh tools/uv.sh
	@VENV="$(VENV)" sh tools/setup.sh dev
	@touch $(RUNTIME) $@

setup: $(STAMP) ## Create .venv with everything pinned

dev: $(RUNTIME) ## Run a dev chain: make dev ARGS="--port 9000"
	@$(BIN)/cairn dev $(ARGS)

check: $(STAMP) ## Lint, types, layers, texts and unit tests
	@$(BIN)/python tools/parts.py check

test: $(STAMP) ## Everything that a change should pass: check, a node in process, properties, simulated networks, some real ones
	@$(BIN)/python tools/parts.py check test

test-all: $(STAMP) ## Everything that there is; installs programs of the system when run as root
	@$(BIN)/python tools/parts.py check test nightly

interop: $(STAMP) ## Use the node with clients of others: generated ones, go-ethereum, cast, hardhat, web3.py, Java
	@$(BIN)/python tools/parts.py interop

fmt: $(STAMP) ## Format and sort imports
	@$(BIN)/python tools/parts.py fmt

clean: ## Remove what the other commands made
	rm -rf $(VENV) .tools mutants dist site tests/js/node_modules tests/js/nodes/node_modules tests/interop/js/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis bench/results

##@ Test for long; each prints its seed

simulate: $(STAMP) ## Simulate networks under faults: make simulate SECONDS=3600, or SEEDS=200, with ARGS="--report reports/simulation.md"
	$(BIN)/python -m tests.simulation $(if $(SEEDS),--count $(SEEDS),--seconds $(or $(SECONDS),60)) $(ARGS)

chaos: $(STAMP) cometbft programs ## Do faults of every kind to real nodes under load: make chaos SECONDS=1800 NETWORK=450
	$(BIN)/python -m tests.chaos.chaos --seconds $(or $(SECONDS),60) $(if $(NETWORK),--network $(NETWORK)) $(if $(SEED),--seed $(SEED))

kills: $(STAMP) cometbft ## Kill nodes, and `cairn forward`, under load again and again: make kills KILLS=1000 NETWORK=100
	$(BIN)/python -m tests.chaos.kills --kills $(or $(KILLS),100) --nodes $(or $(NODES),2) $(if $(NETWORK),--network $(NETWORK)) $(if $(SEED),--seed $(SEED))
	FORWARD_KILLS=$(or $(FORWARD),50) $(BIN)/pytest -q --timeout=7200 tests/e2e/cli/test_forward.py -k kills

shop: $(STAMP) js ## Kill the shop of the tutorial and its node again and again: make shop KILLS=200
	$(BIN)/python -m tests.chaos.shop_kills --kills $(or $(KILLS),20) $(if $(SEED),--seed $(SEED))

soak: $(STAMP) cometbft ## Run nodes under mixed load, alone and in a network: make soak MINUTES=30 NETWORK=7
	$(BIN)/python -m tests.chaos.soak --minutes $(or $(MINUTES),5) $(if $(NETWORK),--network $(NETWORK)) $(if $(SEED),--seed $(SEED))

flips: $(STAMP) ## Change random records of data directories, each of which a verification must find: make flips FLIPS=1000
	FLIPS=$(or $(FLIPS),1000) FLIPS_REPORT=reports/flips.md $(BIN)/pytest -q --timeout=7200 tests/unit/store/verification/test_flips.py

prove-fuzz: $(STAMP) js ## Give altered proof files to all verifiers, which must agree: make prove-fuzz COUNT=100000
	$(BIN)/python -m tests.proofs.fuzz --count $(or $(COUNT),100000) $(if $(SEED),--seed $(SEED)) --report reports/proofs.md

mutants: $(STAMP) ## Change the code in one small way after the other, and name each change that no test notices
	$(BIN)/python tools/mutants.py $(ARGS)

matrix: $(STAMP) ## Run the unit tests on each supported Python; make matrix SESSION=bounds tests on the oldest packages that are allowed
	PATH="$(CURDIR)/.tools/uv/bin:$$PATH" $(BIN)/nox --session $(or $(SESSION),matrix) $(ARGS)

##@ Measure

bench: $(STAMP) ## Measure a real node; fails when a bar is missed
	$(BIN)/python -m bench $(ARGS)

bench-%: $(STAMP) cometbft ## Measure more: peers (geth, anvil, hardhat and ganache, which it installs), network, greedy, million, scale
	@[ $* != peers ] || sh tools/peers.sh
	$(BIN)/python -m bench.$* $(ARGS)
	@[ $* != peers ] || $(BIN)/python -m tools.reference

##@ Docs, and what is made from the source

docs: $(STAMP) ## Build the docs site into site/; fails on a broken link
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "docs: to read it, run '$(BIN)/python -m http.server --directory site'"

generate: $(STAMP) ## Write what is made from the source: references and diagrams of the docs, the synchronous client, types of the explorer, messages of ABCI
	$(BIN)/python -m grpc_tools.protoc --plugin=$(BIN)/protoc-gen-mypy -I src \
		--python_out=src --mypy_out=quiet:src $(PROTO)
	$(BIN)/python tools/sync_client.py
	$(BIN)/python -m tools.explorer_types
	$(BIN)/python tools/diagrams.py
	$(BIN)/python -m tools.reference

pictures: $(STAMP) cometbft programs ## Make the pictures of README and of the dashboard again, on real nodes; takes five minutes
	$(BIN)/python tools/recording.py
	$(BIN)/python -m tools.explorer_picture
	$(BIN)/python -m tools.dashboard_picture

##@ Tools; the commands above get what they need

programs: ## Look for the programs of the system that test-all needs (tools/programs.sh lists them); installs them when run as root
	@sh tools/programs.sh

cometbft: ## Build the pinned CometBFT into .tools/bin
	@sh tools/cometbft.sh

js: ## Install the JavaScript packages that checks and tests need
	@sh tools/js.sh

lock: $(STAMP) ## Regenerate the hash-pinned requirements from requirements/*.in
	$(UV_COMPILE) --upgrade -o requirements/runtime.txt requirements/runtime.in
	$(UV_COMPILE) --upgrade -c requirements/runtime.txt -o requirements/build.txt requirements/build.in
	$(UV_COMPILE) --upgrade -c requirements/runtime.txt -c requirements/build.txt -o requirements/dev.txt requirements/dev.in
	$(UV_COMPILE) --upgrade -o requirements/go.txt requirements/go.in
	$(UV_COMPILE) --upgrade -o requirements/node.txt requirements/node.in
	$(UV_COMPILE) --upgrade -c requirements/dev.txt -o requirements/interop.txt requirements/interop.in
	$(UV_COMPILE) --upgrade -o requirements/release.txt requirements/release.in
	$(UV_COMPILE) --upgrade -o requirements/uv.txt requirements/uv.in

##@ Release

release: $(STAMP) ## Build what is published into dist/, twice and the same, try it, and describe it; says how to publish it
	$(BIN)/python tools/release.py

release-page: ## Show dist/ on the forge as the release TAG, with gh: the last step of a release, which CI does
	gh release create "$(TAG)" --verify-tag --title "Cairn $(TAG:v%=%)" --notes-file dist/CHANGES.md \
		$(if $(findstring rc,$(TAG)),--prerelease) dist/*

image: $(STAMP) ## Build the container image `cairn` with docker: make image BUILDER=podman ARGS="--build-arg BASE=..."
	rm -rf dist/image
	$(BIN)/python -m hatchling build --target wheel --directory dist/image
	$(or $(BUILDER),docker) build --file packaging/container/Dockerfile --tag cairn $(ARGS) .
