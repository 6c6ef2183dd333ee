# The verbs of a contributor. An operator needs none of them: ansible-playbook is enough (README).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
BOOTSTRAP_PYTHON ?= python3
PYTHON := $(VENV)/bin/python
ANSIBLE_PLAYBOOK := $(VENV)/bin/ansible-playbook
SCENARIO ?= default
# A cluster of its own: thousands of pods and a lab for tests do not go together.
SCALE_LAB ?= istio-upgrade-scale
export SCALE_NAMESPACES SCALE_PARTS SCALE_MOVED
# Without bytecode every import of the Kubernetes client costs five times as much.
unexport PYTHONDONTWRITEBYTECODE
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export ANSIBLE_FORCE_COLOR ?= 0

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(VENV)/.ready ## Make the Python environment with everything pinned in requirements/

$(VENV)/.ready: $(wildcard requirements/*.txt)
	@$(BOOTSTRAP_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ". Next: make BOOTSTRAP_PYTHON=python3.12")'
	@echo "setting up $(VENV) (two to four minutes the first time)"
	@$(BOOTSTRAP_PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "Python has no venv module. Next: apt-get install python3-venv"; exit 1; }
	$(BOOTSTRAP_PYTHON) -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@touch $@

include lab/lab.mk

.PHONY: docs
docs: setup ## Generate the variables page, the role READMEs, and the pages of checks and rights
	$(PYTHON) tests/tools/generate_docs.py
	$(PYTHON) tests/tools/generate_checks.py

.PHONY: demo
demo: lab ## Everything: the lab, then the upgrade on it, then where to look
	$(PYTHON) tests/tools/demo.py

.PHONY: lint
lint: setup ## ansible-lint (production), yamllint, ruff, mypy
	yamllint --strict .
	ruff check .
	ruff format --check .
	$(MAKE) --no-print-directory types
	ansible-lint --offline --strict

.PHONY: types
types: setup ## mypy, strict
	mypy filter_plugins module_utils tests
	mypy lab
	mypy library action_plugins/in_process.py

.PHONY: unit
unit: setup ## Unit tests, on every Python that is here
	$(PYTHON) tests/tools/pythons.py

.PHONY: check
check: lint unit ## The quick loop: lint and unit tests

.PHONY: e2e
e2e: lab ## The upgrade on the lab through ansible-runner, and what breaks it
	$(PYTHON) -m pytest tests/e2e -m "lab and not more" --durations=0

.PHONY: e2e-more
e2e-more: lab ## The other roads on the lab: way back, in place, AWX, fleet, report (half an hour more)
	$(PYTHON) -m pytest tests/e2e -m more --durations=0

.PHONY: molecule
molecule: lab ## One molecule scenario on the lab: make molecule SCENARIO=default
	@# A run that was killed leaves its state behind, and the next one would then skip going to the starting point.
	molecule reset -s $(SCENARIO) >/dev/null
	molecule test -s $(SCENARIO)

.PHONY: bench
bench: lab ## The chain against a shell script of the same steps, as a ratio
	$(PYTHON) tests/tools/bench.py

.PHONY: bench-scale
bench-scale: ## Read and move thousands of simulated pods: SCALE_NAMESPACES=1000 is the full size (docs/scale.md)
	$(MAKE) --no-print-directory lab-scale LAB_NAME=$(SCALE_LAB)
	LAB_NAME=$(SCALE_LAB) $(PYTHON) tests/tools/bench_scale.py

.PHONY: test
test: check e2e molecule ## Everything that CI runs
