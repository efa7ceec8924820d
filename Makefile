# Two commands are all a newcomer needs: `make serve` and `make test`. Each does its own set-up.
VENV := .venv
BIN := $(VENV)/bin
LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev

GPU := $(VENV)/.installed-gpu

.PHONY: serve test lint format bench peers lock clean install gpu gpu-check

serve: $(STAMP) ## install, pull the models and serve on http://127.0.0.1:8080/
	@$(BIN)/halfsecond models pull
	@exec $(BIN)/halfsecond serve $(ARGS)

test: lint ## everything: lint, types, architecture, unit, models, browser
	@sh scripts/system-packages.sh libatomic
	@sh scripts/system-packages.sh chromium
	@sh scripts/system-packages.sh npm
	@sh scripts/system-packages.sh sipp
	@sh scripts/system-packages.sh baresip
	@$(BIN)/halfsecond models pull whisper-base smollm2-135m piper-joe smart-turn kokoro
	$(BIN)/python -m pytest $(ARGS)

lint: $(DEV) ## format check, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(DEV) ## reformat the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV) ## measure latency, accuracy and memory on this machine
	@$(BIN)/halfsecond models pull
	@$(BIN)/python -m loadtest.bench $(ARGS)

peers: $(DEV) ## measure halfsecond and pipecat side by side, the same models and callers
	@$(BIN)/halfsecond models pull
	@$(BIN)/python -m loadtest.peers.compare $(ARGS)

lock: $(DEV) ## renew the lock file from pyproject.toml
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile $(LOCK) -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile $(LOCK) --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml
	$(BIN)/uv pip compile $(LOCK) --extra gpu -c requirements.lock -o requirements-gpu.lock pyproject.toml

install: $(STAMP)

gpu: $(GPU) ## what the engines need on an NVIDIA card (several gigabytes)

gpu-check: $(GPU) ## on a card: memory reserved and held, time of each stage, capacity
	@$(BIN)/halfsecond models pull whisper-base smollm2-135m piper-joe smart-turn kokoro kokoro-torch
	@$(BIN)/python -m scripts.gpu_check $(ARGS)

$(STAMP): requirements.lock pyproject.toml scripts/install.sh
	@sh scripts/install.sh $(VENV) run
	@touch $@

$(DEV): requirements-dev.lock pyproject.toml scripts/install.sh
	@sh scripts/install.sh $(VENV) dev
	@touch $@ $(STAMP)

$(GPU): requirements-gpu.lock pyproject.toml scripts/install.sh
	@sh scripts/install.sh $(VENV) gpu
	@touch $@ $(STAMP)

clean:
	rm -rf $(VENV) .venv-peers build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
