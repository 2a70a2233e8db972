# demo | test | check | docs: the same words on a laptop and in CI. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
FEW    := $(VENV)/.few
READY  := $(VENV)/.ready

ifndef AIMWISE_DATA
ifneq ($(wildcard ../shared/data),)
export AIMWISE_DATA := $(abspath ../shared/data)
endif
endif

.PHONY: demo test check docs slow clean
.DELETE_ON_ERROR:

demo: $(FEW)
	OMP_NUM_THREADS=1 $(BIN)/python -m aimwise demo

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

slow: $(READY)
	$(BIN)/python -m pytest -m slow

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site: build/site/index.html"

clean:
	rm -rf $(VENV)

# One thread for each process: the networks are small, and threads that wait for a busy core cost more than they save.

# A stamp is written last: an environment whose installation was interrupted is made anew from nothing. The demo needs little.
$(FEW): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "aimwise needs Python 3.10 or later, $(PYTHON) is $$($(PYTHON) --version 2>&1). Set PYTHON=..."; exit 1; }
	@rm -f $(FEW) $(READY)
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[table,image]'
	@touch $(FEW)

$(READY): $(FEW)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)
