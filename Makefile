# Every target sets its own environment up in .venv; a second call starts at once.
PYTHON ?= python3
PY := .venv/bin/python
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 --dist loadfile  # two processes of one thread

.PHONY: run test soak bench figures lint clean
run: .venv/.ready  ## AR against RECAP and Token Recycling on the bundled model
	$(PY) run.py model=tiny_qwen bench=synthetic method=recap 'versus=[token_recycling,token_recycling_seeded]' limit=32

test: .venv/.ready  ## the test suite
	$(PYTEST)

soak: .venv/.ready  ## the long counts behind the short tests
	RECAP_SOAK=1 $(PYTEST)

bench: .venv/.ready  ## what a step costs beside its pass, how fast it all decodes, what tracing costs
	$(PY) scripts/bench.py
	$(PY) scripts/bench_decoding.py
	$(PY) scripts/trace_cost.py

figures: .venv/.ready  ## the paper's tables and figures, the laptop edition
	MODEL=tiny_qwen LIMIT=20 PYTHON=$(PY) bash scripts/reproduce.sh

lint: .venv/.ready
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

.venv/.ready: pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv results/local .pytest_cache .hypothesis .ruff_cache
