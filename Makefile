# make demo    install, then train the starter model, score it and translate with it
# make test    install with the development tools, then run the tests
# make check   format, lint, types, floors
#
# PYTHON=python3.12 chooses the interpreter, TORCH_INDEX=URL where torch comes from (else pip's own index).

PYTHON ?= python3
export PYTHON TORCH_INDEX

.PHONY: demo test test-slow check install clean

demo: .venv/installed
	scripts/demo

test: .venv/installed-dev
	scripts/test

test-slow: .venv/installed-dev
	scripts/test -m slow

check: .venv/installed-dev
	scripts/check

install: .venv/installed

.venv/installed: pyproject.toml scripts/install
	scripts/install .
	touch $@

.venv/installed-dev: .venv/installed
	scripts/install '.[dev]'
	touch $@

clean:
	rm -rf .venv runs starter
