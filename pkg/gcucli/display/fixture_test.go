package display

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// now is the time of all fixtures.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is a cluster in a file of testdata/.
type fixture struct {
	Resource *topsv1.GcuResource    `json:"gcuResource"`
	Rollout  *topsv1.DaemonRollout  `json:"daemonRollout"`
	Policy   *topsv1.UpgradePolicy  `json:"upgradePolicy"`
	Upgrades []topsv1.NodeUpgrade   `json:"nodeUpgrades"`
	NotShown []string               `json:"notShown"`
	Nodes    map[string]nodeFixture `json:"nodes"`
}

// nodeFixture is a node with its driver pod.
type nodeFixture struct {
	// Offline: it is not Ready. Away: no pod belongs there.
	Offline bool `json:"offline"`
	Away    bool `json:"away"`
	// Revision of the pod; "" for no pod. Unavailable: it is not Ready.
	Revision    string `json:"revision"`
	Unavailable bool   `json:"unavailable"`
}

func load(t *testing.T, name string) *fixture {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		t.Fatal(err)
	}
	return &f
}

// fixtures returns the names of all fixtures.
func fixtures(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	return names
}

// inYAML returns a value as -o yaml prints it.
func inYAML(t *testing.T, value any) string {
	t.Helper()
	data, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// envOf returns environment variables from names and values.
func envOf(pairs ...string) []corev1.EnvVar {
	var list []corev1.EnvVar
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, corev1.EnvVar{Name: pairs[i], Value: pairs[i+1]})
	}
	return list
}
