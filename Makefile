# All commands that developers and continuous integration run.
#
#   make demo        installs missing tools, builds, and runs the demonstration
#   make test        the tests of the plugin
#   make lab         lab/: filters of the literature, a store on the plugin, benchmarks; its lints and tests
#   make test-all    test, lab and stores
#   make core        the tests that need no RocksDB, in seconds
#   make stores      the packages in stores/: formatting, lints, tests; STORES=redb for one,
#                    S3=1 also over an S3 server, ETCD=1 over etcd, whose nodes are killed
#   make fleet       readers over an S3 server of its own, with filters and without; FLEET seconds each
#   make lint        formatting, lints, documentation
#   make headers     the library over each binding of RocksDB, by RocksDB's headers alone
#   make bindings    the tests over another binding; compiles its RocksDB, see docs/rocksdb-versions.md
#   make prebuilt    the README's program with a RocksDB that is compiled already, and what the build refuses
#   make api         compares the library's public items with docs/public-api.txt
#   make msrv        compiles with the oldest Rust that Cargo.toml names
#   make package     what a stranger gets: each crate from its `.crate`, the README's program, the command
#   make binaries    the command as a static binary, with checksums, into FILES
#   make install     the library for C and C++ into PREFIX, /usr/local if not set; see docs/c.md
#   make docs        the documentation as docs.rs builds it, without RocksDB's C++
#   make deny        licences, advisories and sources of all dependencies, by cargo-deny
#   make model       exhausts the model of how filters stay complete, and breaks each of its rules
#   make lemmas      proves the arithmetic of filters for all numbers, by z3, and refuses slips in it
#   make fuzz        each fuzz target for SECONDS
#   make interleave  all interleavings up to PREEMPTIONS, and SCHEDULES random ones, LIMIT seconds each
#   make miri        undefined behaviour, on three targets; SEEDS for the concurrent tests
#   make sanitize    tests under AddressSanitizer; SANITIZE=engine over RocksDB;
#                    =threads and =races under ThreadSanitizer
#   make valgrind    short tests over RocksDB under memcheck
#   make mutants     mutation tests of the code that could lose reads; MUTANTS=front, format or stores for one
#                    package, "changed BASE" for the lines that differ from BASE
#   make faults      injects each fault of crates/support/src/fault.rs; its tests must fail
#   make reliability the search for lost reads, TIER=pr (what tests do not search), check, nightly or release;
#                    TIER=rocksdb: RocksDB's own tests and db_crashtest.py with filters, HUNT seconds a mode
#   make bench       the benchmarks of the README; shorter with KEYS=1000000
#
# Compiling RocksDB's C++ takes about 20 minutes on 2 cores. This happens once: all checkouts share
# one target folder outside the tree, and ccache keeps the objects for other profiles.

export CARGO_TARGET_DIR ?= $(HOME)/.cache/lsm-sieve/target

# Otherwise Cargo would use the build of another checkout if no file of this one is newer.
ifneq ($(shell cat "$(CARGO_TARGET_DIR)/checkout" 2>/dev/null),$(CURDIR))
$(shell mkdir -p "$(CARGO_TARGET_DIR)" && touch build.rs src/lib.rs crates/*/build.rs crates/*/src/lib.rs \
        reliability/*/src/*.rs lab/src/lib.rs lab/*/src/*.rs stores/src/lib.rs stores/*/src/*.rs && \
    echo "$(CURDIR)" >"$(CARGO_TARGET_DIR)/checkout")
endif

# Many tests wait for the disk, or for processes that they start.
export RUST_TEST_THREADS ?= $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))

CARGO ?= cargo
# The binding that `make bindings` tests: a folder of bindings/.
BINDING ?= rust-rocksdb
KEYS  ?= 4000000

PREFIX ?= /usr/local
FILES  ?= $(CARGO_TARGET_DIR)/files

SECONDS     ?= 60
SCHEDULES   ?= 10000
PREEMPTIONS ?= 2
LIMIT       ?= 1200
SEEDS       ?= 4
SANITIZE    ?= core
MUTANTS     ?=
TIER        ?= pr
STORES      ?=
FLEET       ?= 30
S3          ?=
ETCD        ?=

# Expanded when a recipe runs, so after `tools` has installed missing tools. The redirection makes
# make use a shell, which `command` needs.
CCACHE    = $(shell command -v ccache 2>/dev/null)
COMPILERS = $(if $(CCACHE),CC="ccache cc" CXX="ccache c++")
BUILD     = $(COMPILERS) $(CARGO)
SIEVE     = $(BUILD) run --quiet --release --locked --bin lsm-sieve --
LAB       = --locked --manifest-path lab/Cargo.toml
MEASURE   = $(BUILD) run --quiet --release $(LAB) --bin lsm-sieve-lab --

MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# The crates without C++.
CORE = --no-default-features -p lsm-sieve-support -p lsm-sieve-filter -p lsm-sieve-format -p lsm-sieve-front

.PHONY: demo test lab test-all core stores fleet lint headers bindings prebuilt api msrv package binaries install docs deny model lemmas fuzz interleave miri mutants faults reliability sanitize valgrind bench tools

demo: tools
	$(BUILD) build --release --locked --bin lsm-sieve
	$(SIEVE) demo

test: tools
	$(BUILD) test --locked

lab: tools
	@$(COMPILERS) .ci/lab

test-all: test lab stores

core:
	$(BUILD) test --locked $(CORE)
	$(BUILD) test $(LAB) --no-default-features -p lsm-sieve-classics -p lsm-sieve-lab --lib

lint: tools
	$(CARGO) fmt --check
	$(BUILD) clippy --locked --all-targets $(CORE) -p lsm-sieve-cli -- -D warnings
	$(BUILD) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(BUILD) doc --locked --no-deps

stores: tools
	@$(COMPILERS) S3=$(S3) ETCD=$(ETCD) .ci/stores $(STORES)

fleet:
	@cd stores/slatedb && export LSM_SIEVE_WEED="$$(../../.ci/weed)" && \
	    $(CARGO) run --quiet --release --locked --example fleet -- $(FLEET)

headers: tools
	$(COMPILERS) .ci/bindings

bindings: tools
	cd bindings/$(BINDING) && CARGO_TARGET_DIR="$(dir $(CARGO_TARGET_DIR))bindings/$(BINDING)" $(BUILD) test --locked -- --skip structure::

prebuilt: tools
	$(COMPILERS) .ci/prebuilt

api: tools
	$(COMPILERS) .ci/api

msrv: tools
	rustup toolchain install --profile minimal $(MSRV)
	$(COMPILERS) CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/msrv $(CARGO) +$(MSRV) check --locked
	$(COMPILERS) CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/msrv $(CARGO) +$(MSRV) check --locked $(CORE)

package: tools
	$(COMPILERS) .ci/package

binaries: tools
	$(COMPILERS) .ci/binaries $(FILES)

install: tools
	$(COMPILERS) crates/c/install $(PREFIX)

docs: tools
	.ci/docs

deny:
	@command -v cargo-deny >/dev/null || { \
		echo "deny: cargo-deny is missing; install it with: cargo install --locked cargo-deny" >&2; \
		exit 1; \
	}
	$(CARGO) deny check
	$(CARGO) deny --manifest-path lab/Cargo.toml check

model:
	@$(CARGO) run --quiet --locked --bin lsm-sieve-model

lemmas:
	@.ci/lemmas

fuzz:
	@$(COMPILERS) .ci/fuzz $(SECONDS)

interleave: tools
	@$(COMPILERS) .ci/interleave $(SCHEDULES) $(PREEMPTIONS) $(LIMIT)

miri:
	@.ci/miri $(SEEDS)

sanitize: tools
	@$(COMPILERS) .ci/sanitize $(SANITIZE)

valgrind: tools
	@$(COMPILERS) .ci/valgrind

mutants: tools
	@$(COMPILERS) .ci/mutants $(MUTANTS)

reliability: tools
	$(COMPILERS) reliability/run $(TIER)

faults: tools
	$(COMPILERS) reliability/faults

bench: tools
	$(BUILD) bench --locked --bench front
	$(BUILD) bench --locked --bench handle
	$(BUILD) bench --locked --bench probe
	$(BUILD) bench --locked --bench put
	$(BUILD) bench --locked --bench sidecar
	$(BUILD) bench --locked --bench transactions -- $(KEYS)
	$(BUILD) bench $(LAB) --bench growth
	$(BUILD) bench $(LAB) --bench peers
	$(BUILD) bench $(LAB) --bench differential -- $(KEYS)
	$(MEASURE) gremillion --store
	for runs in 1 4 8; do for native in bloom ribbon; do \
		$(MEASURE) bench miss --keys $(KEYS) --runs $$runs --native $$native || exit; \
	done; done
	$(MEASURE) bench miss --keys $(KEYS) --runs 4 --mix 0.01,0.1,0.5,0.9
	$(MEASURE) bench miss --keys $(KEYS) --runs 4 --split 12
	$(MEASURE) bench miss --keys $(KEYS) --runs leveled --cache 32 --lookups 20000

# bindgen needs libclang; ccache is recommended but optional.
tools:
	@.ci/tools
