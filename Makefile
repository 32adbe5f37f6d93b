# Every target sets itself up; `make help` lists them.
# Needs make, Python 3.11 or newer (as python3, python3.14 ... or PYTHON=...) and, the first time, a package index.

VENV := .venv
BIN := $(VENV)/bin
SDK_VENVS := .venvs

# $(VENV) has as much in it as was asked for: each of these is a group of pyproject.toml.
DEMO := $(VENV)/.demo
TEST := $(VENV)/.test
CHECK := $(VENV)/.check
COVERAGE := $(VENV)/.coverage-measured

GOLDSPAN := --editable .

# Each process that a test starts would compile all of goldspan anew.
unexport PYTHONDONTWRITEBYTECODE

# Processes that tests run in. One that has nothing left to do takes tests from another.
JOBS ?= 2
# Published data that is no part of the repository; docs/proof.md says where it is from.
DATA ?= data
PYTEST := python -m pytest -n $(JOBS) --dist worksteal

# The oldest supported SDK and the one google-adk pins; the environment of `test` has the newest there is.
SDK_OLDEST := 1.39.1
SDK_PINNED := 1.44.0
SDK_TESTS := tests/in_process tests/emit tests/mappers/readers tests/mappers/test_registry.py tests/mappers/test_span_views.py \
	tests/mappers/test_containers.py tests/packaging/test_imports.py
# Nothing of opentelemetry is called in these, so every SDK gives what `test` has shown.
SDK_TESTS += $(patsubst %,--ignore=tests/mappers/readers/test_%.py,json_containers json_lines platform_exports span_tables strands_sessions)

# Locks are for every platform; no address of an index is in them.
UV := $(SDK_VENVS)/supply/bin/uv
LOCK := $(UV) pip compile --quiet --universal --python-version 3.13 --generate-hashes --no-header --no-annotate
EXTRAS ?= $(shell sed -n '/^\[project.optional-dependencies\]/,/^\[project.scripts\]/s/^\([a-z-]*\) = \[.*/\1/p' pyproject.toml)

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& echo "$$python" && break; done)

# $(call set_up,VENV,WHAT TO INSTALL): a virtual environment. It leaves a mark: the target.
define set_up
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv found: install one, or say make PYTHON=..." >&2; exit 2; }
	@$(1)/bin/python -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv $(1)
	$(1)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(1)/bin/python -m pip install --quiet $(2)
	@touch $@
endef

.DEFAULT_GOAL := help
.PHONY: help demo test test-change test-map test-all test-sdk test-adk test-adapters test-integrations test-zero-code test-spark test-javascript test-java test-go test-servers check coverage \
	conformance variations docs bench \
	lint mypy pyright proof bench-peers bench-rotel bench-kafka grounding soak faults scenarios collector jaeger record try try-kafka test-kafka \
	locks audit sbom distributions wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO) ## score recorded traces, then a live agent
	$(BIN)/python examples/demo.py

test: $(TEST) ## the tests to run while working: one recording a dialect, few examples; ARGS= goes to pytest
	$(BIN)/$(PYTEST) $(ARGS)

test-change: $(TEST) ## about 20 seconds: the tests that tell most about what differs from main; ARGS="--since HEAD" or pytest's
	@$(BIN)/python tests/change_map.py run $(ARGS)

test-map: $(COVERAGE) ## write anew which tests see which source, for test-change; ARGS="tests/engine ..." looks at those tests alone
	$(BIN)/python tests/change_map.py map $(ARGS)

test-all: $(TEST) ## every test, with every recording and many examples; ARGS= goes to pytest
	$(BIN)/$(PYTEST) --all $(ARGS)

check: lint mypy pyright ## lint, format, types; with -j2 on two cores

lint: $(CHECK)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

mypy pyright: $(CHECK)
	$(BIN)/$@

coverage: $(COVERAGE) ## branches that the tests of `make test` take; fails below the floor in pyproject.toml
	$(BIN)/$(PYTEST) --cov --cov-report=term:skip-covered $(ARGS)

conformance: $(TEST) ## every recording compared with what its agent did; ARGS= names some, or a folder of others with its truth.json
	$(BIN)/python tests/conformance/recordings.py $(ARGS)

variations: $(TEST) ## every recording written in every way: what is read right, what is said, what is silently wrong
	PYTHONPATH=tests $(BIN)/python -m conformance.variations $(ARGS)

docs: $(SDK_VENVS)/docs/.ready ## build the documentation and the API reference into site/; fails on a broken link
	NO_MKDOCS_2_WARNING=1 $(SDK_VENVS)/docs/bin/mkdocs build --strict

bench: $(TEST) ## ratios against reference implementations, in one run
	$(BIN)/python -m benchmarks $(ARGS)

grounding: $(TEST) ## grounding on a file of labelled calls (ARGS=FILE), and what it costs
	$(BIN)/python -m benchmarks.grounding $(ARGS)

proof: $(TEST) ## measure what README and docs promise, and write docs/proof.md; DATA=folder of published data, ARGS= names sections
	PYTHONPATH=tests:docs:. $(BIN)/python -m benchmarks.proof $(ARGS) --data $(DATA)

bench-peers: $(SDK_VENVS)/peers/.ready ## what scoring costs beside the evaluators of UiPath and DeepEval
	$(SDK_VENVS)/peers/bin/python -m benchmarks.peers

bench-rotel: $(SDK_VENVS)/rotel/.ready ## what a span costs in `goldspan serve` beside rotel, as whole processes; Python 3.11 on Linux, two cores
	$(SDK_VENVS)/rotel/bin/python -m benchmarks.rotel $(ARGS)

soak: $(TEST) ## kill a gateway under load 50 times and see what arrives; ARGS= is how often
	PYTHONPATH=tests:. $(BIN)/python tests/soak.py $(ARGS)

faults: $(TEST) ## let each call of the gateway fail in each way, once and for a while, and see what arrives; ARGS= as --help says
	PYTHONPATH=tests:. $(BIN)/python -m faults.campaign $(ARGS)

test-sdk: $(SDK_VENVS)/$(SDK_OLDEST)/.ready $(SDK_VENVS)/$(SDK_PINNED)/.ready ## the tests that touch the OpenTelemetry SDK, on the oldest and the pinned one
	@for sdk in $(SDK_OLDEST) $(SDK_PINNED); do \
		$(SDK_VENVS)/$$sdk/bin/python -c \
			'from importlib.metadata import version; print("opentelemetry-sdk", version("opentelemetry-sdk"))' && \
		$(SDK_VENVS)/$$sdk/bin/$(PYTEST) $(SDK_TESTS) $(ARGS) || exit 1; \
	done

test-adk: $(SDK_VENVS)/adk/.ready ## run the adapter for Google ADK with the real google-adk
	$(SDK_VENVS)/adk/bin/python -m pytest tests/adapters $(ARGS)

test-adapters: $(SDK_VENVS)/evaluators/.ready ## run the evaluators for Strands Evals and UiPath with their real packages
	$(SDK_VENVS)/evaluators/bin/python -m pytest tests/adapters $(ARGS)

test-integrations: test-adk test-adapters test-servers $(SDK_VENVS)/integrations/.ready ## every integration with its real package: these three, agentevals, MLflow and a notebook
	$(SDK_VENVS)/integrations/bin/python -m pytest tests/adapters/test_agentevals.py tests/adapters/test_mlflow.py tests/docs/test_notebook.py $(ARGS)

test-zero-code: $(SDK_VENVS)/zero-code/.ready ## run agents under opentelemetry-instrument, set up by variables and files alone
	$(SDK_VENVS)/zero-code/bin/python -m pytest tests/zero_code $(ARGS)

test-spark: $(SDK_VENVS)/spark/.ready ## scores on a real Spark of two cores; needs Java 17 or newer
	$(SDK_VENVS)/spark/bin/python -m pytest tests/spark $(ARGS)

test-javascript: $(TEST) $(SDK_VENVS)/javascript/.ready ## OpenTelemetry's exporters for JavaScript as clients of the gateway; needs node and npm
	$(BIN)/python -m pytest tests/gateway/test_languages.py $(ARGS)

test-java: $(TEST) $(SDK_VENVS)/java/.ready ## the same for Java; needs Java 17 or newer and mvn
	$(BIN)/python -m pytest tests/gateway/test_languages.py $(ARGS)

test-go: $(TEST) $(SDK_VENVS)/go/.ready ## the same for Go; needs go
	$(BIN)/python -m pytest tests/gateway/test_languages.py $(ARGS)

test-servers: $(TEST) $(SDK_VENVS)/servers/.ready ## scores and traces in a real Phoenix and MLflow, which are large, and in Jaeger after `make jaeger`
	$(BIN)/python -m pytest tests/sinks/test_real_servers.py $(ARGS)

test-kafka: $(SDK_VENVS)/kafka/.ready .kafka/.ready ## workers on a real Kafka, with faults: about 15 minutes; needs Java 17 and Maven
	TEST_KAFKA=1 $(SDK_VENVS)/kafka/bin/python -m pytest -s tests/kafka $(ARGS)

try-kafka: $(SDK_VENVS)/kafka/.ready .kafka/.ready ## Kafka, two workers and a Collector at both ends, as processes, with a few recordings
	@PYTHONPATH=tests:. $(SDK_VENVS)/kafka/bin/python -m kafka.trying

bench-kafka: $(SDK_VENVS)/kafka/.ready .kafka/.ready ## what a span costs in a worker beside the gateway, and what state costs
	PYTHONPATH=tests $(SDK_VENVS)/kafka/bin/python -m benchmarks.kafka $(ARGS)

scenarios: $(TEST) ## what arrives from real processes, with and without goldspan; ARGS= names some
	PYTHONPATH=tests $(BIN)/python tests/scenarios/measuring.py $(ARGS)

jaeger: .collector/jaeger ## build the Jaeger that test-servers reads traces from; needs Go

collector: .collector/otelcol-goldspan ## build the OpenTelemetry Collector that the tests of config/collector use; needs Go

record: ## record a framework's telemetry anew: FRAMEWORK=name; without a name, list them
	@"$(PYTHON)" tests/recordings/record.py $(FRAMEWORK) $(ARGS)

try: $(TEST) ## one scored turn in each framework, set up as docs/frameworks.md says; FRAMEWORK=name tries one
	@PYTHONPATH=tests:tests/recordings $(BIN)/python tests/frameworks/trying.py $(FRAMEWORK)

locks: $(SDK_VENVS)/supply/.ready ## write config/locks anew: what the image installs, each with its hashes; ARGS=--upgrade takes the newest
	@for extra in gateway kafka; do \
		$(LOCK) --extra $$extra pyproject.toml --output-file config/locks/$$extra.txt $(ARGS) || exit 1; \
	done
	@echo 'hatchling' | $(LOCK) - --output-file config/locks/build.txt $(ARGS)

audit: $(SDK_VENVS)/supply/.ready ## advisories on what the image installs; fails if there is one
	$(SDK_VENVS)/supply/bin/pip-audit --require-hashes --disable-pip $(patsubst %,-r %,$(wildcard config/locks/*.txt))

sbom: $(SDK_VENVS)/supply/.ready ## a CycloneDX SBOM of each extra in dist/sbom/; EXTRAS="gateway kafka" for some
	@mkdir -p dist/sbom
	@for extra in $(EXTRAS); do \
		$(UV) venv --quiet --clear $(SDK_VENVS)/sbom && \
		$(UV) pip install --quiet --python $(SDK_VENVS)/sbom ".[$$extra]" && \
		$(SDK_VENVS)/supply/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
			--output-file dist/sbom/goldspan-$$extra.cdx.json $(SDK_VENVS)/sbom && \
		echo dist/sbom/goldspan-$$extra.cdx.json || exit 1; \
	done

distributions: $(SDK_VENVS)/supply/.ready ## build source distribution and wheel into dist/
	$(SDK_VENVS)/supply/bin/python -m build

wheel: $(TEST) ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

clean: ## remove everything a target made
	rm -rf $(VENV) $(SDK_VENVS) .collector .kafka site dist build .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEMO): pyproject.toml
	$(call set_up,$(VENV),$(GOLDSPAN) --group demo)

$(TEST): pyproject.toml
	$(call set_up,$(VENV),$(GOLDSPAN) --group test --group queries)

$(CHECK): pyproject.toml
	$(call set_up,$(VENV),$(GOLDSPAN) --group check)

$(COVERAGE): pyproject.toml
	$(call set_up,$(VENV),$(GOLDSPAN) --group coverage)

$(SDK_VENVS)/docs/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/docs,$(GOLDSPAN) --group docs)

$(SDK_VENVS)/adk/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/adk,$(GOLDSPAN) --group test 'google-adk[eval]>=2.10')

$(SDK_VENVS)/integrations/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/integrations,--editable '.[pandas]' --group test agentevals-cli==0.11.0 mlflow==3.17.2 \
		'ipykernel>=6.29' 'matplotlib>=3.9' 'nbclient>=0.10')

$(SDK_VENVS)/evaluators/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/evaluators,$(GOLDSPAN) --group test strands-agents-evals==1.7.0 uipath==2.14.44)

$(SDK_VENVS)/supply/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/supply,--group supply)

# The newest set of these that fits together: each of their releases holds all the others at its own version.
$(SDK_VENVS)/zero-code/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/zero-code,$(GOLDSPAN) --group test opentelemetry-sdk==1.45.1 opentelemetry-exporter-otlp==1.45.1 \
		opentelemetry-distro==0.66b1 opentelemetry-configuration==0.66b1)

$(SDK_VENVS)/spark/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/spark,--editable '.[spark]' --group test 'matplotlib>=3.9')

$(SDK_VENVS)/peers/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/peers,$(GOLDSPAN) uipath==2.14.44 deepeval==4.3.1)

$(SDK_VENVS)/rotel/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/rotel,$(GOLDSPAN) --group test rotel==0.0.1a15)

$(SDK_VENVS)/kafka/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/kafka,--editable '.[kafka]' --group test)

# The jars of a broker, from Maven.
.kafka/.ready: tests/kafka/pom.xml
	@command -v mvn >/dev/null || { echo "No mvn found: install Maven and Java 17" >&2; exit 2; }
	mvn -q -f $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka/lib
	@touch $@

$(SDK_VENVS)/%/.ready: pyproject.toml
	$(call set_up,$(SDK_VENVS)/$*,$(GOLDSPAN) --group test opentelemetry-sdk==$* opentelemetry-exporter-otlp==$*)

$(SDK_VENVS)/javascript/.ready: tests/exporters/javascript/package.json
	mkdir -p $(@D)
	cp $< $(@D)
	npm install --silent --no-audit --no-fund --prefix $(@D)
	@touch $@

$(SDK_VENVS)/java/.ready: tests/exporters/java/pom.xml
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)/packages
	@touch $@

$(SDK_VENVS)/go/.ready: $(wildcard tests/exporters/go/*)
	go build -C tests/exporters/go -o $(CURDIR)/$(@D)/replay .
	@touch $@

$(SDK_VENVS)/servers/.ready:
	"$(PYTHON)" -m venv $(SDK_VENVS)/servers
	$(SDK_VENVS)/servers/bin/python -m pip install --quiet arize-phoenix==20.26.1 mlflow==3.17.2
	@touch $@

# Jaeger's own module is built, since its go.mod replaces modules.
.collector/jaeger:
	go build -C "$$(go mod download -json github.com/jaegertracing/jaeger@v1.76.0 | sed -n 's/.*"Dir": "\(.*\)",/\1/p')" \
		-o $(CURDIR)/$@ ./cmd/all-in-one

.collector/otelcol-goldspan: tests/collector/builder.yaml
	go run go.opentelemetry.io/collector/cmd/builder@v0.161.0 --config $<
