# make demo    install, then train the starter model, score it and translate with it
# make test    install with the development tools, then run the tests
# make check   format, lint, types, floors
# make bench-training bench-choices bench-precision bench-sizes
#              measurements on zh-en-50k, hours all together (docs/en/benchmarks.md); WEFT_DATA says where it lies,
#              PEERS where the other systems are installed, ARGS is handed on
#
# PYTHON=python3.12 chooses the interpreter, TORCH_INDEX=URL where torch comes from (else pip's own index).

PYTHON ?= python3
PEERS ?= .peers
export PYTHON TORCH_INDEX

.PHONY: demo test test-slow check install clean bench-training bench-choices bench-precision bench-sizes

demo: .venv/installed
	scripts/demo

test: .venv/installed-dev
	scripts/test

test-slow: .venv/installed-dev
	scripts/test -m slow

check: .venv/installed-dev
	scripts/check

bench-training: .venv/installed
	bench/peers/install $(PEERS)
	.venv/bin/python -m bench.training --peers $(PEERS) $(ARGS)

bench-choices bench-precision bench-sizes: .venv/installed
	.venv/bin/python -m bench.choices $(@:bench-%=%) $(ARGS)

install: .venv/installed

.venv/installed: pyproject.toml scripts/install
	scripts/install .
	touch $@

.venv/installed-dev: .venv/installed
	scripts/install '.[dev]'
	touch $@

clean:
	rm -rf .venv runs starter
