# make help says what there is.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help

BIN := $(CURDIR)/bin
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
# Tools are compiled once for all checkouts.
TOOLS := $(CACHE)/gcu-operator-tools
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)

CONTROLLER_GEN_VERSION := v0.23.0
GOLANGCI_LINT_VERSION := v2.12.2
GOTESTSUM_VERSION := v1.13.0
GREMLINS_VERSION := v0.6.0
GOVULNCHECK_VERSION := v1.9.0
CRD_REF_DOCS_VERSION := v0.3.0
NFPM_VERSION := v2.43.0
SYFT_VERSION := v1.57.1
CONTROLLER_GEN := $(TOOLS)/controller-gen-$(CONTROLLER_GEN_VERSION)
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)
GOTESTSUM := $(TOOLS)/gotestsum-$(GOTESTSUM_VERSION)
GREMLINS := $(TOOLS)/gremlins-$(GREMLINS_VERSION)
GOVULNCHECK := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)
CRD_REF_DOCS := $(TOOLS)/crd-ref-docs-$(CRD_REF_DOCS_VERSION)
NFPM := $(TOOLS)/nfpm-$(NFPM_VERSION)
SYFT := $(TOOLS)/syft-$(SYFT_VERSION)

# go-install PATH VERSION FILE
define go-install
@echo "installing $(1) $(2)"
@mkdir -p $(TOOLS) && GOBIN=$(3).new go install $(1)@$(2) && mv $(3).new/$(notdir $(1)) $(3) && rmdir $(3).new
endef

# What is compiled does not depend on where the checkout is, and programs and tests are
# compiled the same way, so that all of them find it in Go's cache.
export GOFLAGS := -trimpath $(GOFLAGS)
export CGO_ENABLED := 0

.PHONY: help
help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/manager, bin/node-agent, bin/kubectl-gcu and bin/testcluster
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/manager ./cmd/node-agent ./cmd/kubectl-gcu
	go build -o $(BIN)/testcluster ./test/cluster
	cp cmd/kubectl-gcu/kubectl_complete-gcu $(BIN)/

.PHONY: image-programs
image-programs:
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/images/programs/ ./cmd/manager ./cmd/node-agent

.PHONY: images
images: build image-programs ## Make the images of the operator and of the stand-ins, as archives in bin/images
	$(BIN)/testcluster install busybox
	go build -ldflags '-s -w' -o $(BIN)/images/programs/standin/ ./test/standin ./test/standin/enflame-container-runtime
	go run ./images --programs $(BIN)/images/programs --output $(BIN)/images --version $(VERSION)

# What nfpm needs is not served everywhere (docs/releasing.md). Nothing is downloaded.
.PHONY: release
release: ## Make everything that the page of a release holds, in bin/release (VERSION=v1.2.3; KEY=file signs; CHECK=1 makes it twice and compares; DIRTY=1 takes what is not committed too; PACKAGES=no makes no deb and no rpm)
	@GOPROXY=off go run ./release --version '$(VERSION)' --output $(BIN)/release --nfpm $(if $(filter no,$(PACKAGES)),none,$(NFPM)) --syft $(SYFT) $(if $(KEY),--key '$(KEY)') $(if $(CHECK),--check) $(if $(DIRTY),--dirty)

.PHONY: fetch
fetch: ## Get what make release needs from the network
	go mod download
	@$(MAKE) --no-print-directory $(SYFT)
	@$(MAKE) --no-print-directory $(NFPM) || \
		{ echo "make fetch: there is no nfpm $(NFPM_VERSION): make release PACKAGES=no makes no deb and no rpm" >&2; exit 1; }

.PHONY: rootfs
rootfs: image-programs # What is in the operator's image, for images/Dockerfile
	go run ./images --programs $(BIN)/images/programs --rootfs $(ROOTFS)

.PHONY: control-plane
control-plane: build ## Build what is missing of the test control plane (cold: about ten minutes)
	$(BIN)/testcluster build

# The cluster is that of kubectl. IMG=registry.example.com/gcu-operator:v1 names the image.
OVERLAY := $(if $(IMG)$(RESTART_DOCKER),$(BIN)/deploy,config/default)

.PHONY: install
install: ## Install the CRDs only
	kubectl apply --server-side -k config/crd

.PHONY: deploy
deploy: ## Deploy the operator (IMG=registry.example.com/gcu-operator:v1 names its image; RESTART_DOCKER=false leaves restarts of docker and containerd to you)
	@case '$(RESTART_DOCKER)' in ''|true|false) ;; *) echo "make deploy: RESTART_DOCKER is true or false, not $(RESTART_DOCKER)" >&2; exit 2 ;; esac
	@image='$(IMG)'; case "$${image##*/}" in *@*|*:) false ;; ?*:*) ;; *) test -z "$$image" ;; esac || \
		{ echo "make deploy: IMG is a name with a tag, such as registry.example.com/gcu-operator:v1, not $$image" >&2; exit 2; }
	@mkdir -p $(BIN)/deploy
	@image='$(IMG)'; sed $(if $(IMG),-e "s|newName: .*|newName: $${image%:*}|" -e "s|newTag: .*|newTag: \"$${image##*:}\"|",'/^images:/,$$d') examples/own-image/kustomization.yaml >$(BIN)/deploy/kustomization.yaml
	@test -z '$(RESTART_DOCKER)' || echo 'patches: [{target: {kind: DaemonSet, name: gcu-node-agent}, patch: "- {op: add, path: /spec/template/spec/containers/0/args, value: [\"--restart-docker=$(RESTART_DOCKER)\"]}"}]' >>$(BIN)/deploy/kustomization.yaml
	kubectl apply --server-side -k $(OVERLAY)

.PHONY: component-images
component-images: ## Build the images of the components with the vendor's package: FROM=its component-images [REPOSITORY=registry.example.com/gcu] [DRIVER=true] [OVERWRITE=yes|no]
	@go run ./images/components $(if $(REPOSITORY),-repository='$(REPOSITORY)') $(if $(DRIVER),-driver='$(DRIVER)') $(if $(OVERWRITE),-overwrite='$(OVERWRITE)') $(if $(FROM),'$(subst ','\'',$(FROM))')

.PHONY: undeploy
undeploy: ## Remove the grs, then the operator and its CRDs, or what is left of them
	@crd="$$(kubectl get crd gcuresources.topsops.enflame.com --ignore-not-found --output=name)"; test -z "$$crd" || kubectl delete gr --all --timeout=10m || \
		{ echo "grs are left, which only the operator can remove: if it does not run, make deploy brings it back; then run this again" >&2; exit 1; }
	kubectl delete --ignore-not-found -k config/default
	kubectl delete --ignore-not-found -n kube-system secret,configmap gcu-operator-ca

.PHONY: demo
demo: control-plane ## Tell the whole story on a test cluster (KEEP=1 leaves it up, RECORD=FILE records it)
	@go build -o $(BIN)/demo ./test/demo
	@$(BIN)/demo $(if $(KEEP),--keep) $(if $(RECORD),--record $(RECORD))

.PHONY: bench
bench: control-plane ## Measure rollouts side by side with RollingUpdate (CASES=1000,qps runs some)
	@go build -o $(BIN)/bench ./test/bench
	@$(BIN)/bench $(if $(CASES),--cases $(CASES))

# suite LIST runs a list of tests: go run ./test/suite LIST --list prints it, and
# STEPS=race,e2e runs some of it.
define suite
@go build -o $(BIN)/suite-$(1) ./test/suite
@GOTESTSUM=$(GOTESTSUM) GREMLINS=$(GREMLINS) KUBEBUILDER_ASSETS="$$($(BIN)/testcluster assets)" $(BIN)/suite-$(1) $(1) $(if $(STEPS),--only $(STEPS))
endef

.PHONY: test
test: control-plane $(GOTESTSUM) ## Run all tests, the end-to-end ones on a real control plane included (KUBERNETES=1.37.1 is its version)
	$(call suite,test)

.PHONY: test-nodes
test-nodes: control-plane images $(GOTESTSUM) ## Tell stories on real nodes: kubelets, containerd, docker, lost links and power (root, Linux)
	$(call suite,nodes)

# A KUBECONFIG of the environment is not used: it may be that of a cluster in production.
.PHONY: test-kind
test-kind: images ## Tell short stories on a new kind cluster, or on KUBECONFIG=FILE with LOAD=, DISCONNECT=, RECONNECT=, ON_NODE= (test/kind/README.md)
	KUBECONFIG="$(if $(findstring command,$(origin KUBECONFIG)),$(KUBECONFIG))" KUBECTL="$(KUBECTL)" LOAD="$(LOAD)" DISCONNECT="$(DISCONNECT)" RECONNECT="$(RECONNECT)" ON_NODE="$(ON_NODE)" OPERATOR="$(OPERATOR)" \
		go test -tags=kind -count=1 -timeout=1h -v $(if $(RUN),-run '$(RUN)') ./test/kind

.PHONY: helm
helm:
	go build -C test/chart -o $(BIN)/helm3 helm.sh/helm/v3/cmd/helm
	go build -C test/chart -o $(BIN)/helm4 helm.sh/helm/v4/cmd/helm

# OLDER is the first version that had a chart.
OLDER := dc75ffb34efac1db8ce31b7cb79e51ec34423373

.PHONY: older
older: # Programs, image and chart of an earlier version, in bin/older
	@test "$$(cat $(BIN)/older/commit 2>/dev/null)" = $(OLDER) || { tree=$$(mktemp -d) && trap "rm -rf $$tree" EXIT && \
		git archive $(OLDER) | tar -x -C $$tree && $(MAKE) -C $$tree images BIN=$$tree/bin VERSION=v0.9.0 && rm -rf $(BIN)/older && mkdir -p $(BIN)/older && \
		cp -r $$tree/bin/node-agent $$tree/charts/gcu-operator $$tree/bin/images/operator.tar $(BIN)/older/ && echo $(OLDER) >$(BIN)/older/commit; }

.PHONY: test-install
test-install: control-plane images helm older $(NFPM) $(SYFT) ## Install as the README says and over kustomize, upgrade, roll back and uninstall with Helm 3 and 4 on a test cluster, and install on nodes without a network; install deb and rpm (root, Linux)
	NFPM=$(NFPM) SYFT=$(SYFT) go test -count=1 -tags=install -v -run='^TestThePackagesAreInstalled$$|^TestSyftListsTheModules$$' ./release
	go test -C test/chart -count=1 -timeout=30m -tags=install -v -run="^TestTheREADMEInstalls|^TestHelmTakesOver|^TestInstall$$|^TestWithoutANetwork$$" .

.PHONY: screenshots
screenshots: control-plane ## Take the pictures of the docs again, in Chromium
	KUBEBUILDER_ASSETS="$$($(BIN)/testcluster assets)" SCREENSHOTS=$(CURDIR)/docs go test -C test/browser -count=1 -run='TestThePageIsLive|TestAPlanIsDrawn' .

.PHONY: long
long: control-plane images race-programs $(GOTESTSUM) $(GREMLINS) $(NFPM) $(SYFT) ## Run everything that takes hours, and print one table (STEPS=mutants,race runs some)
	$(call suite,long)

.PHONY: soak
soak: control-plane ## Roll out back to back on 200 nodes, with churn, killed managers and cut links, and see that nothing grows (SOAK=90m is its length, SEED=n repeats the disturbances)
	go test -tags=soak -count=1 -timeout=0 -v -run='^TestSoak$$' ./test/e2e

.PHONY: race-programs
race-programs:
	CGO_ENABLED=1 go build -race -o $(BIN)/race/ ./cmd/manager ./cmd/node-agent ./cmd/kubectl-gcu

.PHONY: test-unit
test-unit: ## Run the tests that need no cluster
	go test -short ./api/... ./cmd/node-agent ./images ./pkg/daemonset ./pkg/daemonupdater/... ./pkg/drain/cordon ./pkg/drain/eviction ./pkg/gcucli/... ./pkg/gcuresource/component ./pkg/gcuresource/nodelabel ./pkg/gcuresource/plan ./pkg/gcuresource/revision ./pkg/gcuresource/state ./pkg/gcuresource/status ./pkg/hostagent/... ./pkg/hosttasks/hostapi ./pkg/journal ./pkg/logging ./pkg/message ./pkg/nodeapi ./pkg/nodeupgrade/operation ./pkg/preview/... ./pkg/upgradeapi/recreation ./pkg/upgradeapi/request ./pkg/upgradeplan

SIMULATIONS := ./pkg/daemonupdater ./pkg/nodeupgrade ./pkg/nodeupgrade/operation ./pkg/gcuresource

.PHONY: sim
sim: ## Play all simulations (SEEDS=n or n-m, FRESH=1m; SEED=k OF=rollouts plays one again and prints it)
	@go test -v -count=1 -timeout 0 -run '^TestSimulation' $(SIMULATIONS)

.PHONY: mutants
mutants: control-plane ## Test the tests: seeded defects must be caught (NAMES="..." for some)
	KUBEBUILDER_ASSETS="$$($(BIN)/testcluster assets)" go run ./test/mutants $(NAMES)

.PHONY: generate
generate: $(CONTROLLER_GEN) $(CRD_REF_DOCS) ## Generate deep copies, CRDs, roles and the reference in docs
	$(CONTROLLER_GEN) object crd paths=./api/... output:crd:dir=config/crd
	$(CONTROLLER_GEN) rbac:roleName=gcu-operator,fileName=manager_role.yaml \
		paths=./cmd/manager/... paths=./pkg/gcuresource/... paths=./pkg/daemonupdater/... paths=./pkg/drain/... paths=./pkg/nodeupgrade/... paths=./pkg/podreplace/... paths=./pkg/preview/... paths=./pkg/servingcert/... paths=./pkg/upgradeapi/... output:rbac:dir=config/rbac
	$(CONTROLLER_GEN) rbac:roleName=gcu-node-agent,fileName=node_agent_role.yaml \
		paths=./cmd/node-agent/... output:rbac:dir=config/rbac
	$(CRD_REF_DOCS) --log-level=ERROR --source-path=api/v1 --config=test/docs/api/config.yaml --templates-dir=test/docs/api --renderer=markdown --max-depth=20 --output-path=docs/reference/api.md
	go run ./charts
	go run ./test/docs

# The findings that golangci-lint keeps name files: a cache shared between two
# checkouts reports one's findings in the other.
lint: export GOLANGCI_LINT_CACHE = $(CACHE)/gcu-operator-lint$(CURDIR)

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run golangci-lint, go vet among its linters
	$(GOLANGCI_LINT) run --allow-parallel-runners ./...

# Not part of verify: its database is on the network, and changes without a commit.
.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Look for known vulnerabilities in the code that is called (VULNDB=file:///copy of the database)
	@$(GOVULNCHECK) $(if $(VULNDB),-db $(VULNDB)) ./cmd/... || { status=$$?; test $$status = 3 || \
		echo "make vulncheck: nothing was checked. Where https://vuln.go.dev cannot be reached, unpack a copy of its vulndb.zip and set VULNDB=file:///its/folder"; exit $$status; }

.PHONY: layers
layers: ## Fail when files of a package use each other in a circle, or a file, function or type is too large
	@go run ./test/layers --check

.PHONY: verify
verify: generate tidy lint layers ## Generate, tidy, lint, and fail when that changes a file
	@git diff --exit-code --stat || { echo "make verify: the files above are not up to date or not committed"; exit 1; }
	@test -z "$$(git status --porcelain)" || { git status --short; echo "make verify: the tree is dirty: commit these files"; exit 1; }
	@echo "make verify: everything is generated, tidy and clean"

.PHONY: tidy
tidy: ## Tidy go.mod and format
	go mod tidy
	cd test/chart && go mod tidy
	cd test/browser && go mod tidy
	gofmt -w api charts cmd config images pkg release test

.PHONY: clean
clean: ## Remove what was built here (not the cached control plane)
	rm -rf $(BIN)

$(CONTROLLER_GEN):
	$(call go-install,sigs.k8s.io/controller-tools/cmd/controller-gen,$(CONTROLLER_GEN_VERSION),$@)

$(GOLANGCI_LINT):
	$(call go-install,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_LINT_VERSION),$@)

$(GOTESTSUM):
	$(call go-install,gotest.tools/gotestsum,$(GOTESTSUM_VERSION),$@)

$(NFPM):
	$(call go-install,github.com/goreleaser/nfpm/v2/cmd/nfpm,$(NFPM_VERSION),$@)

$(SYFT):
	$(call go-install,github.com/anchore/syft/cmd/syft,$(SYFT_VERSION),$@)

$(GREMLINS):
	$(call go-install,github.com/go-gremlins/gremlins/cmd/gremlins,$(GREMLINS_VERSION),$@)

$(GOVULNCHECK):
	$(call go-install,golang.org/x/vuln/cmd/govulncheck,$(GOVULNCHECK_VERSION),$@)

$(CRD_REF_DOCS):
	$(call go-install,github.com/elastic/crd-ref-docs,$(CRD_REF_DOCS_VERSION),$@)
