package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/need"
)

// rendered returns config/default with a component, as its kustomization says.
func rendered(t *testing.T, component string) string {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		need.Skip(t, "config/components needs kubectl, to render it")
	}
	directory := t.TempDir()
	to, err := filepath.Abs(root)
	if err == nil {
		to, err = filepath.Rel(directory, to)
	}
	if err != nil {
		t.Fatal(err)
	}
	overlay := fmt.Sprintf("resources: [%[1]s/config/default]\ncomponents: [%[1]s/config/components/%[2]s]\n", to, component)
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(overlay), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("kubectl", "kustomize", directory).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestTheCapabilityToSeeHoldersIsAdded renders the kustomization in docs/edge-node.md.
func TestTheCapabilityToSeeHoldersIsAdded(t *testing.T) {
	const want = "            add:\n            - DAC_OVERRIDE\n            - SYS_PTRACE\n            drop:\n            - ALL\n"
	if !strings.Contains(rendered(t, "see-device-holders"), want) {
		t.Errorf("no container with\n%s", want)
	}
	if shipped := read(t, "config/node-agent/daemonset.yaml"); strings.Contains(shipped, "SYS_PTRACE") {
		t.Error("the node agent has the capability by default")
	}
}

// TestBesideYurthubTheAgentHasAnotherPort: yurthub listens on the default one.
func TestBesideYurthubTheAgentHasAnotherPort(t *testing.T) {
	const want = "      - args:\n        - --ota-bind-address=127.0.0.1:10367\n        command:\n        - /usr/bin/node-agent\n"
	if !strings.Contains(rendered(t, "beside-yurthub"), want) {
		t.Errorf("no container with\n%s", want)
	}
}

// TestTheWebhookIsServed renders the flag and the port of the kustomization in docs/install.md.
func TestTheWebhookIsServed(t *testing.T) {
	got := rendered(t, "webhook")
	for _, want := range []string{"        - --webhook-bind-address=:9443\n", "        - containerPort: 9443\n          name: webhook\n", "    - port: webhook\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("not rendered:\n%s", want)
		}
	}
}

// TestTheGateIsAskedFor renders the kustomization in docs/install.md.
func TestTheGateIsAskedFor(t *testing.T) {
	const want = "      - args:\n        - --leader-elect\n        - --gate\n"
	if !strings.Contains(rendered(t, "gate"), want) {
		t.Errorf("no container with\n%s", want)
	}
}

// TestAnotherNamespaceIsSetWhereItIsNamed: kustomize changes it only in the metadata.
func TestAnotherNamespaceIsSetWhereItIsNamed(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/install.md"), "\n### Another namespace\n")
	section, _, _ = strings.Cut(section, "\n## ")
	metadata := regexp.MustCompile(`(?m)^metadata:\n(  .*\n)*?  namespace: kube-system$`)
	for _, name := range filesOf(t, ".yaml") {
		if !strings.HasPrefix(name, "config/") || strings.HasPrefix(name, "config/crd/") || filepath.Base(name) == "kustomization.yaml" {
			continue
		}
		if text := metadata.ReplaceAllString(withoutComments(read(t, name)), ""); strings.Contains(text, "kube-system") && !strings.Contains(section, "(../"+name+")") {
			t.Errorf("%s names kube-system, and docs/install.md does not say so", name)
		}
	}
}

// withoutComments returns YAML without lines that are comments.
func withoutComments(text string) string {
	return regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(text, "")
}

// TestTheNetworkPolicyCoversThePortsOfTheManager: what enforces it closes all others, and with the
// component what the manager may call.
func TestTheNetworkPolicyCoversThePortsOfTheManager(t *testing.T) {
	var policy networkingv1.NetworkPolicy
	var deployment appsv1.Deployment
	for document := range strings.SplitSeq(rendered(t, "limit-egress"), "\n---\n") {
		var is metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &is); err != nil {
			t.Fatal(err)
		}
		if into := map[string]any{"NetworkPolicy": &policy, "Deployment": &deployment}[is.Kind]; into != nil && !strings.Contains(document, "name: gcu-nfd\n") {
			if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
				t.Fatal(err)
			}
		}
	}
	template := deployment.Spec.Template
	var open, covered []string
	for _, port := range template.Spec.Containers[0].Ports {
		open = append(open, port.Name)
	}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			covered = append(covered, port.Port.String())
		}
	}
	slices.Sort(open)
	slices.Sort(covered)
	if !slices.Equal(open, covered) {
		t.Errorf("the manager has ports %v, the policy %v", open, covered)
	}
	if selected, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector); err != nil || policy.Namespace != deployment.Namespace || !selected.Matches(labels.Set(template.Labels)) {
		t.Errorf("the policy selects %v in %s: %v", selected, policy.Namespace, err)
	}
	if want := []networkingv1.PolicyType{"Ingress", "Egress"}; !slices.Equal(policy.Spec.PolicyTypes, want) || len(policy.Spec.Egress) != 2 {
		t.Errorf("with the component it is %+v", policy.Spec)
	}
	if shipped := read(t, "config/manager/network_policy.yaml"); strings.Contains(shipped, "egress:") {
		t.Error("the default limits egress, though the port of the API server is not known")
	}
}

// TestNobodyReachesNFD: its master listens without authentication, for the worker in its pod. The policy has the
// names that nfd has without one in its gr, and in the examples.
func TestNobodyReachesNFD(t *testing.T) {
	var policy networkingv1.NetworkPolicy
	if err := yaml.UnmarshalStrict([]byte(read(t, "config/manager/nfd_network_policy.yaml")), &policy); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) || policy.Spec.Ingress != nil {
		t.Errorf("it is %+v, want that nothing comes in", policy.Spec)
	}
	selected, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	unnamed := topsv1.GcuResource{Spec: topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}}}
	var example topsv1.GcuResource
	if err := yaml.Unmarshal([]byte(read(t, "examples/gcu-resource.json")), &example); err != nil {
		t.Fatal(err)
	}
	for _, gr := range []topsv1.GcuResource{unnamed, example} {
		components, err := component.Render(&gr, "revision")
		if err != nil {
			t.Fatal(err)
		}
		if nfd := components[0].PerNode; components[0].Name != component.NFD || nfd.Namespace != "kube-system" || !selected.Matches(labels.Set(nfd.Spec.Template.Labels)) {
			t.Errorf("it selects %v, not the pods of %s/%s", selected, nfd.Namespace, nfd.Name)
		}
	}
}

// TestMakeDeployHasTheOptionsOfTheGuidesScript runs it with a kubectl that renders instead of applying.
func TestMakeDeployHasTheOptionsOfTheGuidesScript(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		need.Skip(t, "make deploy needs kubectl, to render its overlay")
	}
	programs := t.TempDir()
	script := "#!/bin/sh\nexec " + kubectl + " kustomize \"$4\"\n"
	if err := os.WriteFile(filepath.Join(programs, "kubectl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	deploy := func(variables ...string) (string, error) {
		command := exec.Command("make", append([]string{"deploy"}, variables...)...)
		command.Dir, command.Env = root, append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
		out, err := command.CombinedOutput()
		return string(out), err
	}
	const ours, other = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-operator:dev", "registry.example.com:5000/gcu-operator:v1"
	for _, tt := range []struct {
		variables []string
		image     string
		flags     string
	}{
		{nil, ours, ""},
		{[]string{"IMG=" + other}, other, ""},
		{[]string{"IMG=gcu-operator:20261127"}, "gcu-operator:20261127", ""},
		{[]string{"RESTART_DOCKER=false"}, ours, "--restart-docker=false"},
		{[]string{"IMG=" + other, "RESTART_DOCKER=true"}, other, "--restart-docker=true"},
	} {
		t.Run("contract 83: "+strings.Join(tt.variables, " "), func(t *testing.T) {
			out, err := deploy(tt.variables...)
			if found := strings.Count(out, "image: "+tt.image+"\n"); err != nil || found != 3 {
				t.Errorf("the image is named %d times, want 3: %v\n%.500s", found, err, out)
			}
			if found := strings.Count(out, "- --restart-docker"); found != min(1, len(tt.flags)) || !strings.Contains(out, tt.flags) {
				t.Errorf("the node agent has the flag %d times, want %q", found, tt.flags)
			}
		})
	}
	for variable, want := range map[string]string{
		"RESTART_DOCKER=no":                  "RESTART_DOCKER is true or false, not no",
		"IMG=registry.example.com:5000/gcu":  "IMG is a name with a tag",
		"IMG=gcu:":                           "IMG is a name with a tag",
		"IMG=example.com/gcu:v1@sha256:0123": "IMG is a name with a tag",
	} {
		if out, err := deploy(variable); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%.500s", variable, err, out)
		}
	}
}

// TestMakeUndeployRemovesWhatIsLeft runs it with a kubectl that records what it is called with.
func TestMakeUndeployRemovesWhatIsLeft(t *testing.T) {
	const crd, grs, operator = "get crd gcuresources.topsops.enflame.com --ignore-not-found --output=name", "delete gr --all --timeout=10m", "delete --ignore-not-found -k config/default"
	const ca = "delete --ignore-not-found -n kube-system secret,configmap gcu-operator-ca" // the manager made them
	for _, tt := range []struct {
		name, answer string
		want         []string
		fails        bool
	}{
		{"contract 85: the grs go before the operator", "echo crd/gcuresources.topsops.enflame.com", []string{crd, grs, operator, ca}, false},
		{"contract 85: the operator goes too where the CRDs are gone already", "exit 0", []string{crd, operator, ca}, false},
		{"nothing is removed while the API server does not answer", "exit 1", []string{crd}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			programs := t.TempDir()
			calls := filepath.Join(programs, "calls")
			script := "#!/bin/sh\necho \"$*\" >>" + calls + "\ntest \"$1\" != get || " + tt.answer + "\n"
			if err := os.WriteFile(filepath.Join(programs, "kubectl"), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			command := exec.Command("make", "undeploy")
			command.Dir, command.Env = root, append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
			if out, err := command.CombinedOutput(); (err != nil) != tt.fails {
				t.Errorf("%v\n%s", err, out)
			}
			called, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Split(strings.TrimSpace(string(called)), "\n"); !slices.Equal(got, tt.want) {
				t.Errorf("kubectl is called with %q, want %q", got, tt.want)
			}
		})
	}
}

// TestMakeComponentImagesTakesAnyFolder runs it with a go that shows what it is called with.
func TestMakeComponentImagesTakesAnyFolder(t *testing.T) {
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "go"), []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{"": "", "/tmp/images": "</tmp/images>", "/tmp/the, vendor's  $package": "</tmp/the, vendor's  $package>"} {
		command := exec.Command("make", "--silent", "component-images", "FROM="+strings.ReplaceAll(from, "$", "$$"))
		command.Dir, command.Env = root, append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
		if out, err := command.CombinedOutput(); err != nil || string(out) != "<run><./images/components>"+want {
			t.Errorf("%q: %v, go is called with %s", from, err, out)
		}
	}
}
