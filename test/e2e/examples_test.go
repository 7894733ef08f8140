package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// volcano is the one component that no example deploys.
const volcanoFile, volcano = "volcano", `
apiVersion: topsops.enflame.com/v1
kind: GcuResource
metadata: {name: batch}
spec: {volcano: {}}
`

// examples deploys each example as a user would, waits with kubectl until it runs,
// and deletes it: nothing is left but what is kept.
func (s *scenarios) examples(ctx context.Context, t *testing.T) {
	nodes := s.nodeNames(ctx, t)
	s.labelled(ctx, t, nodes[0], "node-role.kubernetes.io/control-plane=", "gcu-pool=blue")
	for _, name := range nodes[1:] {
		s.labelled(ctx, t, name, "gcu-pool=green")
	}
	tests := []struct {
		file  string
		ready map[string]string // of each gr
	}{
		{"gcu-resource.json", map[string]string{"enflame-gcu-resource": "5/5"}},
		{"gcu-resource.yaml", map[string]string{"enflame-gcu-resource": "5/5"}},
		{"gcu-resource-driver.json", map[string]string{"enflame-gcu-resource": "6/6"}},
		{"gcushare.yaml", map[string]string{"enflame-gcu-shared": "6/6"}},
		{"nightingale.yaml", map[string]string{"enflame-gcu-monitoring": "1/1"}},
		{"two-resources.yaml", map[string]string{"enflame-gcu-software": "4/4", "enflame-gcu-exporter": "1/1"}},
		{"driver-versions.yaml", map[string]string{"gcu-driver-blue": "1/1", "gcu-driver-green": "1/1", "gcu-software": "5/5"}},
		{volcanoFile, map[string]string{"batch": "1/1"}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			file := s.onTheseNodes(t, tt.file, nodes)
			s.kubectl(ctx, t, "create", "-f", file)
			for name, ready := range tt.ready {
				s.kubectl(ctx, t, "wait", "--for=jsonpath={.status.phase}=Running", "gr/"+name, "--timeout=2m")
				if line := s.kubectl(ctx, t, "get", "gr", name, "--no-headers"); !strings.Contains(line, " "+ready+" ") {
					t.Errorf("kubectl get gr prints %q, want READY %s", line, ready)
				}
			}
			s.kubectl(ctx, t, "delete", "-f", file, "--timeout=2m")
			s.nothingLeft(ctx, t)
		})
	}
}

// onTheseNodes returns an example, with nodes of this cluster in place of the ones
// it names, as a file of its own.
func (s *scenarios) onTheseNodes(t *testing.T, example string, nodes []string) string {
	t.Helper()
	text := []byte(volcano)
	if example != volcanoFile {
		var err error
		if text, err = os.ReadFile(filepath.Join("..", "..", "examples", example)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(s.Dir, "example.yaml") // JSON is YAML; no t.TempDir: kubectl splits a path at its commas
	text = []byte(strings.NewReplacer("node-1", nodes[1], "node-2", nodes[2]).Replace(string(text)))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// kubectl runs kubectl and returns what it printed.
func (s *scenarios) kubectl(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.Kubectl(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// labelled gives labels to a node until the test ends.
func (s *scenarios) labelled(ctx context.Context, t *testing.T, node string, labels ...string) {
	t.Helper()
	s.kubectl(ctx, t, append([]string{"label", "node", node}, labels...)...)
	t.Cleanup(func() {
		args := []string{"label", "node", node}
		for _, l := range labels {
			key, _, _ := strings.Cut(l, "=")
			args = append(args, key+"-")
		}
		s.kubectl(context.WithoutCancel(ctx), t, args...)
	})
}

func (s *scenarios) nodeNames(ctx context.Context, t *testing.T) []string {
	t.Helper()
	return strings.Fields(s.kubectl(ctx, t, "get", "nodes", "--output=jsonpath={.items[*].metadata.name}"))
}

// nothingLeft waits until no object and no label of a gr is left, but what is kept.
func (s *scenarios) nothingLeft(ctx context.Context, t *testing.T) {
	t.Helper()
	s.eventually(ctx, t, func() error {
		for _, list := range []client.ObjectList{
			&appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &batchv1.JobList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &corev1.ConfigMapList{},
			&corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{},
			&appsv1.ControllerRevisionList{}, &topsv1.DaemonRolloutList{},
		} {
			if err := s.Client.List(ctx, list, client.HasLabels{topsv1.LabelGcuResource}); err != nil {
				return err
			}
			if n := meta.LenList(list); n > 0 {
				return fmt.Errorf("%d objects are left in a %T", n, list)
			}
		}
		labelled := s.kubectl(ctx, t, "get", "nodes", "--output=name", "--selector="+topsv1.LabelGcuPresent)
		labelled += s.kubectl(ctx, t, "get", "nodes", "--output=name", "--selector="+topsv1.LabelGcushare)
		webhooks := s.kubectl(ctx, t, "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "--output=name")
		if labelled != "" || webhooks != "" {
			return fmt.Errorf("labels are left on %q, webhooks %q", labelled, webhooks)
		}
		return nil
	})
}
