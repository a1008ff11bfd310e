# Every target is one command of compose/local.py, which says what it does while it does it.
PYTHON ?= $(shell command -v python3 || command -v python3.13 || command -v python3.12 || command -v python3.11)
LOCAL := $(PYTHON) compose/local.py
RUN := .venv/bin/python
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test matrix thorough up down check house bench chaos soak ha lock schema dist image pictures client-js docs

help:
	@echo "make demo    install what is missing, start real servers, ingest, query, end everything"
	@echo "make test    the whole test suite on real servers; ARGS='-k name' is handed to pytest"
	@echo "make thorough the same, what repeats promises at greater length, some tests on each column of the matrix, some failovers"
	@echo "make matrix  some tests on every kind of server that can be had here, into docs/compatibility.md;"
	@echo "             ARGS=mysql-9 for one of them, ARGS=--whole for all tests with servers"
	@echo "make up      start the local stack and leave it running; prints where it is"
	@echo "make down    end it"
	@echo "make check   format, lint, types, import contracts, unit tests; no servers"
	@echo "make house   concepts of the product: settings, records, pools, caches, files that name a field; ARGS=--list"
	@echo "make bench   the benchmark, into benchmarks/results/"
	@echo "make chaos   ingest while everything is killed at random; ARGS='--seed N' repeats a run,"
	@echo "             ARGS='--broker rabbitmq' has RabbitMQ carry the messages, where it is installed"
	@echo "make soak    an hour of mixed load, after which nothing may have grown; ARGS='--minutes N'"
	@echo "make ha      lose each server of an installation of clusters in turn, under load; ARGS='--only mysql', or '--seed 1-20'"
	@echo "make schema  record anew what the migrations make, after one was added"
	@echo "make docs    README and docs/ as a site with search, in English and Chinese, into dist/site"
	@echo "make pictures take the pictures of README and docs/ anew, from a stack with sample data"
	@echo "make lock    write requirements*.lock anew from pyproject.toml"
	@echo "make dist    build client and server as wheels and source archives, and the JavaScript package, into dist/"
	@echo "make image   carry out compose/Dockerfile without a Docker engine, with a bill of materials in dist/"
	@echo "make client-js  write the JavaScript client anew from the OpenAPI description"

demo:
	@$(LOCAL) with demo --fresh -- $(RUN) compose/demo/run.py $(ARGS)

# What tests allow their stack: servers of their own on loopback, and less patience.
FOR_TESTS := CHORDWISE_FETCH_ALLOW_NETWORKS=127.0.0.0/8 CHORDWISE_API_ALLOW_NETWORKS=127.0.0.0/8 \
	CHORDWISE_WEBHOOK_ALLOW_PRIVATE=127.0.0.0/8 CHORDWISE_INGEST_LEASE_S=10 CHORDWISE_PARSER_TIMEOUT_S=5 \
	CHORDWISE_RECALL_EXPERIMENT_ENABLED=true CHORDWISE_RECALL_EXPERIMENT_PLATFORM=internal CHORDWISE_TRUSTED_PROXIES=127.0.0.0/8

test:
	@$(FOR_TESTS) $(LOCAL) with test --fresh --no-sync --dev -- $(RUN) -m tests $(ARGS)

matrix:
	@$(LOCAL) install --dev
	@$(FOR_TESTS) $(RUN) -m tests.matrix $(ARGS)

thorough:
	@$(MAKE) test ARGS="--thorough $(ARGS)"
	@$(MAKE) soak ARGS="--minutes 10"
	$(if $(ARGS),,@$(MAKE) matrix ARGS=--short)
	$(if $(ARGS),,@$(MAKE) ha ARGS="--seed 1-3")

up:
	@$(LOCAL) up

down:
	@$(LOCAL) down

check:
	@$(LOCAL) check

house:
	@$(PYTHON) -m tests.support.repository.concepts $(ARGS)

bench:
	@$(LOCAL) with bench --fresh -- $(RUN) -m benchmarks $(ARGS)

chaos:
	@$(LOCAL) with chaos --fresh $(if $(findstring rabbitmq,$(ARGS)),--rabbitmq) -- $(RUN) -m tests.faults.chaos $(ARGS)

# What is kept for an hour or a day is kept for a minute or two, so that it comes to rest while the run lasts.
FOR_SOAK := CHORDWISE_QUERY_TTL_S=60 CHORDWISE_RESULT_CACHE_TTL_S=60 CHORDWISE_PREVIOUS_GENERATION_KEPT_S=60 \
	CHORDWISE_TRACES_KEPT=20

soak:
	@$(FOR_TESTS) $(FOR_SOAK) $(LOCAL) with soak --fresh --dev -- $(RUN) -m tests.faults.soak $(ARGS)

ha:
	@$(LOCAL) install --dev
	@$(FOR_TESTS) CHORDWISE_INGEST_LEASE_S=15 $(RUN) -m tests.ha $(ARGS)

lock:
	@$(LOCAL) lock $(ARGS)

dist:
	@$(LOCAL) dist

image:
	@$(LOCAL) image $(ARGS)

docs:
	@$(LOCAL) install --no-servers
	@$(RUN) -m compose.site

pictures:
	@CHORDWISE_WEBHOOK_ALLOW_PRIVATE=127.0.0.0/8 $(LOCAL) with pictures --fresh --dev -- $(RUN) -m compose.pictures $(ARGS)

client-js:
	@$(LOCAL) install --dev --no-servers
	@$(RUN) -m clients.generate_javascript

schema:
	@$(LOCAL) with schema --fresh --dev --servers-only -- $(RUN) -m tests.record_schema
