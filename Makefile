# make demo    install, translate with a model that comes with weft, then train the starter model, score it and use it
# make test    install with the development tools, then run the tests
# make check   format, lint, types, floors
# make audit   known weaknesses of what is installed, and a list of it; asks the package index
# make clean   removes the environment and the starter corpus; what was trained stays in runs/
# make lock    pins the packages of a release by version and sha256 (deploy/requirements.txt); asks the package index
# make bench-training bench-parts bench-choices bench-precision bench-sizes bench-pieces bench-pieces-in-full
# make bench-augmentation bench-large
#              measurements on zh-en-50k, hours all together (docs/en/benchmarks.md); WEFT_DATA says where it lies,
#              PEERS where the other systems are installed, ARGS is handed on
# make bench-decoding bench-menu bench-invariance bench-bulk bench-streaming bench-memory bench-cold
#              measurements of translation; ARGS="--model runs/zh-en-50k" says of which model
# make bench-golden ARGS="--data DIR"
#              whether results are what they were before a change (bench/golden.py): a minute
# make bench-shipped
#              trains the models that come with weft: hours for each (bench/shipped.py)
# make birthplace
#              trains a small model on biographies and questions, and scores its answers: ten minutes to an hour (docs/en/language-models.md)
# make bench-reports ARGS=course-onecycle
#              trains a recipe to its end and scores it: hours for each (docs/en/reports.md)
# make bench-reliability
#              kills, full disks, bad numbers, a long run: half an hour (docs/en/reliability.md)
# make bench-serving ARGS='--model DIR'
#              a server under load, overload, attack and change: ten minutes (docs/en/serving.md)
#
# PYTHON=python3.12 chooses the interpreter, TORCH_INDEX=URL where torch comes from (else pip's own index).

PYTHON ?= python3
PEERS ?= .peers
export PYTHON TORCH_INDEX

.PHONY: demo test test-slow check audit lock install clean bench-training bench-parts bench-choices bench-precision bench-sizes \
	bench-pieces bench-pieces-in-full bench-augmentation bench-large bench-decoding bench-menu bench-invariance bench-bulk bench-streaming \
	bench-memory bench-cold bench-golden bench-shipped bench-reports bench-reliability bench-serving birthplace

demo: .venv/installed
	scripts/demo

test: .venv/installed-dev
	scripts/test

test-slow: .venv/installed-dev
	scripts/test -m slow

check: .venv/installed-dev
	scripts/check

audit: .venv/installed-dev
	scripts/audit

lock:
	scripts/lock

bench-training: .venv/installed
	bench/peers/install $(PEERS)
	.venv/bin/python -m bench.training --peers $(PEERS) $(ARGS)

bench-decoding: .venv/installed-dev  # with the library of an engine that weft exports to
	bench/peers/install $(PEERS)
	.venv/bin/python -m bench.decoding --peers $(PEERS) $(ARGS)

bench-parts bench-large bench-menu bench-invariance bench-bulk bench-streaming bench-memory bench-cold bench-golden: .venv/installed
	.venv/bin/python -m bench.$(@:bench-%=%) $(ARGS)

bench-choices bench-precision bench-sizes bench-augmentation: .venv/installed
	.venv/bin/python -m bench.choices $(@:bench-%=%) $(ARGS)

bench-pieces bench-pieces-in-full: .venv/installed-dev  # with the libraries that cut words and word pieces
	.venv/bin/python -m bench.choices $(@:bench-%=%) $(ARGS)

bench-shipped: .venv/installed
	.venv/bin/python -m bench.shipped $(ARGS)

birthplace: .venv/installed
	.venv/bin/weft train recipes/birthplace-pretrain.toml

bench-reports: .venv/installed-dev  # with the library that cuts word pieces
	.venv/bin/python -m bench.reports $(ARGS)

bench-reliability: .venv/installed
	.venv/bin/python -m bench.reliability $(ARGS)

bench-serving: .venv/installed-dev
	.venv/bin/python -m bench.serving $(ARGS)

install: .venv/installed

.venv/installed: pyproject.toml scripts/install Makefile
	scripts/install '.[serve]'
	touch $@

.venv/installed-dev: .venv/installed
	scripts/install '.[dev]'
	touch $@

clean:
	rm -rf .venv starter
