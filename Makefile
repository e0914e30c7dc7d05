# `make demo` and `make test` need git, make, Python >= 3.11 and a package index; all else they fetch
# themselves, into .tools/ (uv), .venv/ (to work in) and .venvs/ (one for each other set of versions).

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

# The first Python that is new enough; `make PYTHON=python3.13 …` takes another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

# An uv on the PATH serves if it knows dependency groups; else one is put into .tools/.
UV := $(shell uv pip install --help 2>/dev/null | grep -q -e '--group' && command -v uv || echo .tools/bin/uv)
export UV_PYTHON_DOWNLOADS := never
# pip compiles what it installs and uv does not; where Python is told to write no bytecode, every start would pay.
export UV_COMPILE_BYTECODE := 1

# uv does not read pip's settings: where they name the package index, uv is told of it.
index = $${UV_DEFAULT_INDEX:-$${UV_INDEX_URL:-$${PIP_INDEX_URL:-$$($(PYTHON) -m pip config get global.index-url 2>/dev/null)}}}
uv = index="$(index)"; test -z "$$index" || export UV_DEFAULT_INDEX="$$index"; $(UV)

# $(call venv,FOLDER): an environment that works, kept if there is one already.
venv = $(1)/bin/python -c '' 2>/dev/null || $(UV) venv --quiet --clear --python $(PYTHON) $(1)

adapter := integrations/openai
langchain := integrations/langchain
inputs := Makefile constraints.txt pyproject.toml $(adapter)/pyproject.toml $(langchain)/pyproject.toml

.PHONY: help
help:
	@echo 'make demo         an agent against a real llama.cpp, raw and wrapped, side by side'
	@echo 'make test         every check that must pass'
	@echo 'make test-vllm    the same against a real vLLM on the CPU (4 GB in ~/.cache, once)'
	@echo 'make setup        .venv with everything for working on kvagent'
	@echo 'make format       lay out the code, and mend what the linter can'
	@echo 'make constraints  newer versions into constraints.txt'
	@echo 'make clean        remove every environment and cache'

.tools/bin/uv:
	@test -n '$(PYTHON)' || { echo 'kvagent needs Python 3.11 or newer: none is on the PATH' >&2; exit 1; }
	@# Some systems ship Python without ensurepip, and so without a pip in new environments.
	@echo 'Setting up .tools'
	@$(PYTHON) -m venv --clear .tools && .tools/bin/python -m pip install --quiet uv \
		|| $(PYTHON) -m pip install --quiet --upgrade --target .tools uv

.PHONY: setup
setup: .venv/.ready

.venv/.ready: $(inputs) | $(UV)
	@echo 'Setting up .venv (the demo model is 98 MB)'
	@$(call venv,.venv)
	@$(uv) pip install --quiet --python .venv -c constraints.txt \
		-e '.[all]' -e $(adapter) -e '$(langchain)[openai]' --group dev --group demo
	@touch $@

# The other environments hold only what the adapters' tests need beside their own group. Old versions come
# from its group, so what constraints.txt says of them is left out there.
old-openai2 := openai
old-langchain-oldest := \(openai\|langchain.*\|langgraph.*\)
with-langchain := -e '$(langchain)[openai]' -e '.[demo]' --group demo
with-langchain-oldest := -e '$(langchain)[openai]'
with-deepagents := -e '$(langchain)[openai]'

.venvs/%/.ready: $(inputs) | $(UV)
	@echo 'Setting up .venvs/$*'
	@$(call venv,.venvs/$*)
	@sed '$(if $(old-$*),/^$(old-$*)==/d)' constraints.txt > .venvs/$*/constraints.txt
	@$(uv) pip install --quiet --python .venvs/$* -c .venvs/$*/constraints.txt \
		-e . -e $(adapter) $(with-$*) --group test --group $*
	@touch $@

.PHONY: demo
demo: setup
	.venv/bin/kvagent demo

# In this order: what fails fastest comes first, and the whole suite's summary is the last line.
.PHONY: test
test: lint types test-openai2 test-agents test-pydantic-ai test-langchain test-langchain-oldest test-deepagents test-all

.PHONY: lint
lint: setup
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .

# Three runs, because each has a folder `tests`.
.PHONY: types
types: setup
	.venv/bin/mypy kvagent tests
	.venv/bin/mypy $(adapter)
	.venv/bin/mypy $(langchain)

.PHONY: test-all
test-all: setup
	.venv/bin/python -m pytest

.PHONY: test-openai2
test-openai2: .venvs/openai2/.ready
	.venvs/openai2/bin/python -m pytest -c pyproject.toml $(adapter)/tests

.PHONY: test-agents
test-agents: .venvs/agents/.ready
	.venvs/agents/bin/python -m pytest -c pyproject.toml $(adapter)/tests/frameworks/test_agents.py

.PHONY: test-pydantic-ai
test-pydantic-ai: .venvs/pydantic-ai/.ready
	.venvs/pydantic-ai/bin/python -m pytest -c pyproject.toml $(adapter)/tests/frameworks/test_pydantic_ai.py

.PHONY: test-langchain
test-langchain: .venvs/langchain/.ready
	.venvs/langchain/bin/python -m pytest -c pyproject.toml $(langchain)/tests

.PHONY: test-langchain-oldest
test-langchain-oldest: .venvs/langchain-oldest/.ready
	.venvs/langchain-oldest/bin/python -m pytest -c pyproject.toml $(langchain)/tests

.PHONY: test-deepagents
test-deepagents: .venvs/deepagents/.ready
	.venvs/deepagents/bin/python -m pytest -c pyproject.toml $(addprefix $(langchain)/tests/test_,deepagents.py examples.py readme.py)

# vLLM on the CPU is 4 GB, so it lies outside the checkout and is kept for the next time.
VLLM_HOME ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kvagent/vllm
.PHONY: test-vllm
test-vllm: setup
	@$(PYTHON) tests/vllm/setup_vllm.py '$(VLLM_HOME)'
	KVAGENT_VLLM='$(VLLM_HOME)/bin/python' .venv/bin/python -m pytest tests/vllm

.PHONY: format
format: setup
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

# One list for every environment: first what .venv holds, then what only the others add.
groups := --extra=all --group=dev --group=demo
.PHONY: constraints
constraints: | $(UV)
	@$(uv) lock --quiet --upgrade --python $(PYTHON)
	@for selection in '$(groups)' '--only-group=openai2' '--only-group=agents' '--only-group=pydantic-ai' \
		'--only-group=benchmarks' '--only-group=langchain' '--only-group=deepagents'; do \
		$(UV) export --quiet --frozen --all-packages --no-hashes --no-header --no-annotate --no-emit-workspace $$selection || exit 1; \
	done > .constraints.new
	@{ grep '^#' constraints.txt; \
		sed 's/ *;.*//' .constraints.new | sort -s -t = -k 1,1 -u; } > .constraints.sorted
	@mv .constraints.sorted constraints.txt && rm .constraints.new
	@git --no-pager diff --stat constraints.txt

.PHONY: clean
clean:
	rm -rf .tools .venv .venvs .hypothesis .mypy_cache .pytest_cache .ruff_cache
