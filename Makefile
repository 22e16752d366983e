# Two commands do everything: `make lab` opens the course, `make test` proves it. `make help` lists the rest.
.DEFAULT_GOAL := help
.PHONY: help lab test audit grade assignment notebooks timing slides site bench bench-quick babi translate results lint format downloads lock clean clean-cache setup setup-test

PYTHON ?= python3
PORT ?= 8888
LESSON ?=
PART ?=
FOLDER ?=
ARGS ?=
RUN := .venv/bin/python
SETUP := @command -v "$(PYTHON)" >/dev/null || { echo "No '$(PYTHON)' on this machine: install Python 3.11 or newer, or name one with 'make ... PYTHON=/path/to/python3'."; exit 1; }; "$(PYTHON)" utils/build/bootstrap.py

# torch is left out: the same version comes as another build for another machine. No address of an index is written.
LOCK := CUSTOM_COMPILE_COMMAND="make lock" $(RUN) -m piptools compile --quiet --extra test --generate-hashes --strip-extras --no-annotate \
	--unsafe-package torch --unsafe-package pip --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	--output-file requirements.lock pyproject.toml

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-22s%s\n", $$1, $$2}'

lab: setup ## open the course in JupyterLab at lesson 00 (PORT=8888)
	@$(RUN) -m utils.build.lab --port $(PORT)

test: setup-test lint ## run every test: the library, the notebooks, the pages in a browser
	@$(RUN) -m utils.build.downloads
	@$(RUN) -m pytest -n 3 --dist loadfile --no-loadscope-reorder -q tests notebooks

audit: setup-test ## the slow proofs that are not in 'make test': broken machines, versions, repeated runs (PART=machines for one)
	@$(RUN) -m tests.audit $(PART)

notebooks: setup-test ## build the notebooks whose source or library changed (LESSON=01 for one)
	@$(RUN) -m utils.build.notebooks $(LESSON)

timing: setup-test ## measure the run time and memory of each lesson, on a quiet machine
	@$(RUN) -m utils.build.notebooks --measure $(LESSON)

slides: setup-test ## write one self-contained deck per lesson to slides/
	@$(RUN) -m utils.build.slides $(LESSON)

site: setup-test ## write the website to site/: lessons with live widgets, slides, results, search
	@$(RUN) -m utils.build.site

bench: setup-test ## measure every stored result and run time again, and write docs/results.md (hours, on a quiet machine)
	@$(RUN) -m tests.benchmarks && $(RUN) -m utils.build.notebooks --measure && $(RUN) -m utils.build.documents

bench-quick: setup-test ## run every benchmark with small settings, next to the stored figures, which stay (minutes)
	@$(RUN) -m tests.benchmarks --quick

grade: setup ## grade a folder of submitted notebooks (FOLDER=submissions ARGS="--jobs 2")
	@$(RUN) -m utils.grading "$(FOLDER)" $(ARGS)

assignment: setup-test ## write notebooks for nbgrader to assignment/ (LESSON=01 for one)
	@$(RUN) -m utils.grading.assignment $(LESSON) $(ARGS)

babi: setup ## train memory networks on the bAbI files in data/babi/en, or on generated stories (ARGS="--tasks 16")
	@$(RUN) -m utils.training.babi $(ARGS)

translate: setup ## compare translation models, on the course's pairs or real ones (ARGS="--pairs data/translation/fra.txt")
	@$(RUN) -m utils.training.translate $(ARGS)

downloads: setup ## download the published weights and texts that lessons use, once (190 MB)
	@$(RUN) -m utils.build.downloads

lock: setup-test ## write requirements.lock from pyproject.toml; versions stay unless ARGS="--upgrade"
	@$(LOCK) $(ARGS)

results: setup-test ## write docs/results.md, and the generated parts of README and lecturers' guide, from the stored results
	@$(RUN) -m utils.build.documents

lint: setup-test ## check code and notebook sources with ruff
	@$(RUN) -m ruff check -q . && $(RUN) -m ruff format -q --check .

format: setup-test ## format code and notebook sources
	@$(RUN) -m ruff check -q --fix . && $(RUN) -m ruff format -q .

clean-cache: setup ## delete cached training results; they are trained again when next needed
	@$(RUN) -m utils.training.cache --clear

clean: ## remove what can be made again: environment, caches, decks; never work/
	rm -rf .venv .cache slides site .pytest_cache .ruff_cache .hypothesis *.egg-info

setup:
	$(SETUP)

setup-test:
	$(SETUP) --test
