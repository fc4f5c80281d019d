# The entry for people. Each goal installs what it needs on a fresh Debian 12, as
# root or through sudo, or says what to install (scripts/deps.sh).

CARGO   ?= cargo
PREFIX  ?= /usr/local
DESTDIR ?=
bindir   = $(DESTDIR)$(PREFIX)/bin
sharedir = $(DESTDIR)$(PREFIX)/share
unitdir  = $(DESTDIR)/etc/systemd/system
confdir  = $(DESTDIR)/etc/rutter
RELEASE  = $(or $(CARGO_TARGET_DIR),target)/release/rutter
LAB      = $(dir $(RELEASE))rutter-lab

.PHONY: help build lab test demo bench deep install uninstall

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

build: deps-build ## the router: target/release/rutter
	$(CARGO) build --locked --release -p cli

lab: deps-build ## the lab, which `rutter lab` starts: target/release/rutter-lab
	$(CARGO) build --locked --release -p lab

demo: deps-demo ## a whole network on this machine: hosts, router, BIRD, full table, traffic
	$(CARGO) build --locked --profile demo -p cli
	$(or $(CARGO_TARGET_DIR),target)/demo/rutter demo

test: deps-test ## all tests; what could not run is listed (RUTTER_STRICT=1: fails)
	scripts/test.sh

bench: deps-bench ## the quick set of measurements; records go to lab-records
	scripts/bench.sh

deep: deps-deep ## what takes long or nightly Rust: miri, sanitizers, fuzzing, mutants
	scripts/deep.sh

# Not `build`: `make build && sudo make install` must not need root's own Rust.
$(RELEASE):
	$(MAKE) build

# Nor for the lab, which is no part of a router: through sudo only what is built is installed.
$(LAB):
	$(if $(SUDO_USER),@echo 'without the lab: "make lab" as $(SUDO_USER) and install again',$(MAKE) lab)

install: $(RELEASE) $(LAB) ## router and lab into PREFIX (/usr/local), with a systemd unit
	install -d "$(bindir)" "$(unitdir)" "$(confdir)"
	install -m 755 $(RELEASE) "$(bindir)/rutter"
	if [ -e $(LAB) ]; then install -m 755 $(LAB) "$(bindir)/rutter-lab"; fi
	sed "s|@bindir@|$$(printf %s '$(PREFIX)/bin' | sed 's/ /\\\\x20/g')|" packaging/rutter.service >"$(unitdir)/rutter.service"
	$(RELEASE) config example >"$(confdir)/rutter.toml.example"
	install -d "$(sharedir)/man/man5" "$(sharedir)/rutter"
	install -m 644 packaging/rutter-dpdk.conf packaging/rutter-policies.conf "$(sharedir)/rutter"
	scripts/manpage.sh $(RELEASE) >"$(sharedir)/man/man5/rutter.toml.5"
	install -d "$(sharedir)/bash-completion/completions" "$(sharedir)/zsh/site-functions" "$(sharedir)/fish/vendor_completions.d"
	$(RELEASE) completion bash >"$(sharedir)/bash-completion/completions/rutter"
	$(RELEASE) completion zsh >"$(sharedir)/zsh/site-functions/_rutter"
	$(RELEASE) completion fish >"$(sharedir)/fish/vendor_completions.d/rutter.fish"
	@echo 'next: cp "$(confdir)/rutter.toml.example" "$(confdir)/rutter.toml", change it, systemctl enable --now rutter'

uninstall: ## takes away what install put there; the configuration stays
	rm -f "$(bindir)/rutter" "$(bindir)/rutter-lab" "$(unitdir)/rutter.service" "$(confdir)/rutter.toml.example"
	rm -f "$(sharedir)/man/man5/rutter.toml.5" "$(sharedir)/bash-completion/completions/rutter" "$(sharedir)/zsh/site-functions/_rutter" \
		"$(sharedir)/fish/vendor_completions.d/rutter.fish" "$(sharedir)/rutter/rutter-dpdk.conf" \
		"$(sharedir)/rutter/rutter-policies.conf"
	-rmdir "$(sharedir)/rutter" 2>/dev/null
	-rmdir "$(confdir)" 2>/dev/null

deps-%:
	@scripts/deps.sh $*
