# Two commands do everything: `make lab` opens the course, `make test` proves it. `make help` lists the rest.
# Each is a command of utils/build/commands.py; where there is no make, `python -m utils lab` does the same.
.DEFAULT_GOAL := help
.PHONY: help lab test audit grade assignment notebooks timing slides site bench bench-quick babi translate results lint format downloads lock clean clean-cache setup setup-test

PYTHON ?= python3
PORT ?= 8888
LESSON ?=
PART ?=
FOLDER ?=
ARGS ?=
CHECK := @command -v "$(PYTHON)" >/dev/null || { echo "No '$(PYTHON)' on this machine: install Python 3.11 or newer, or name one with 'make ... PYTHON=/path/to/python3'."; exit 1; };
COURSE := $(CHECK) "$(PYTHON)" -m utils

help:
	$(COURSE) help
	@echo "Options: PORT=9000 LESSON=01 PART=machines FOLDER=submissions, others in ARGS=\"...\"; 'make clean' removes what can be made again."

lab:
	$(COURSE) lab --port $(PORT)

grade:
	$(COURSE) grade "$(FOLDER)" $(ARGS)

audit:
	$(COURSE) audit $(PART)

assignment notebooks timing slides:
	$(COURSE) $@ $(LESSON) $(ARGS)

test site bench bench-quick babi translate results lint format downloads lock clean-cache:
	$(COURSE) $@ $(ARGS)

clean: # environment, caches, decks; never work/
	rm -rf .venv .cache build slides site .pytest_cache .ruff_cache .hypothesis *.egg-info

setup:
	$(CHECK) "$(PYTHON)" utils/build/bootstrap.py

setup-test:
	$(CHECK) "$(PYTHON)" utils/build/bootstrap.py --test
