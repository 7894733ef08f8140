package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// volcano is the only component that no example deploys.
const volcanoFile, volcano = "volcano", `
apiVersion: topsops.enflame.com/v1
kind: GcuResource
metadata: {name: batch}
spec: {volcano: {}}
`

// Each example is deployed like a user would, and deleted when kubectl shows that it
// runs: nothing is left except for what is kept on purpose. TestStory tests the example
// of the demo.
func TestEveryExampleDeploysRunsAndGoesWithoutATrace(t *testing.T) {
	s, ctx := enterAlone(t)
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
	s.startManager(ctx, t)
	s.labeled(ctx, t, s.nodes[:1], "node-role.kubernetes.io/control-plane=", "node-restriction.kubernetes.io/gcu-components=allowed", "gcu-pool=blue")
	s.labeled(ctx, t, s.nodes[1:], "gcu-pool=green")
	for _, together := range []map[string]map[string]string{ // file -> READY of each gr
		{"gcu-resource.json": {"enflame-gcu-resource": "5/5"}},
		{"gcu-resource.yaml": {"enflame-gcu-resource": "5/5"}, "nightingale.yaml": {"enflame-gcu-monitoring": "1/1"}},
		{"two-resources.yaml": {"enflame-gcu-software": "4/4", "enflame-gcu-exporter": "1/1"}, volcanoFile: {"batch": "1/1"}},
		{"driver-versions.yaml": {"gcu-driver-blue": "1/1", "gcu-driver-green": "1/1", "gcu-software": "5/5"}},
		{"gcushare.yaml": {"enflame-gcu-shared": "6/6"}},
	} {
		t.Run(strings.Join(slices.Sorted(maps.Keys(together)), " and "), func(t *testing.T) {
			var files []string
			for example := range together {
				files = append(files, "-f", s.onTheseNodes(t, example))
			}
			if together[volcanoFile] != nil {
				s.kubectl(ctx, t, "apply", "--server-side", "-k", "config/volcano")
			}
			s.kubectl(ctx, t, append([]string{"create"}, files...)...)
			for _, grs := range together {
				for name, ready := range grs {
					s.kubectl(ctx, t, "wait", "--for=jsonpath={.status.phase}=Running", "gr/"+name, "--timeout=2m")
					if line := s.kubectl(ctx, t, "get", "gr", name, "--no-headers"); !strings.Contains(line, " "+ready+" ") {
						t.Errorf("kubectl get gr prints %q, want READY %s", line, ready)
					}
				}
			}
			s.kubectl(ctx, t, append([]string{"delete", "--timeout=2m"}, files...)...)
			s.nothingLeft(ctx, t)
		})
	}
}

// onTheseNodes writes an example to a file, with its node names replaced by those of
// this cluster.
func (s *stage) onTheseNodes(t *testing.T, example string) string {
	t.Helper()
	text := []byte(volcano)
	if example != volcanoFile {
		var err error
		if text, err = os.ReadFile(s.Project.Path("examples", example)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(s.Dir, "example-"+example+".yaml") // JSON is YAML; no t.TempDir: kubectl splits a path at its commas
	text = []byte(strings.NewReplacer("node-1", s.nodes[1], "node-2", s.nodes[2]).Replace(string(text)))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// labeled gives labels to nodes until the test ends.
func (s *stage) labeled(ctx context.Context, t *testing.T, nodes []string, labels ...string) {
	t.Helper()
	s.kubectl(ctx, t, slices.Concat([]string{"label", "node"}, nodes, labels)...)
	t.Cleanup(func() {
		args := slices.Concat([]string{"label", "node"}, nodes)
		for _, l := range labels {
			key, _, _ := strings.Cut(l, "=")
			args = append(args, key+"-")
		}
		s.kubectl(context.WithoutCancel(ctx), t, args...)
	})
}

// nothingLeft waits until no object and no label of a gr is left, except for what is
// kept on purpose.
func (s *stage) nothingLeft(ctx context.Context, t *testing.T) {
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
		labeled := s.kubectl(ctx, t, "get", "nodes", "--output=name", "--selector="+topsv1.LabelGcuPresent)
		labeled += s.kubectl(ctx, t, "get", "nodes", "--output=name", "--selector="+topsv1.LabelGcushare)
		webhooks := s.kubectl(ctx, t, "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "--output=name")
		if labeled != "" || webhooks != "" {
			return fmt.Errorf("labels are left on %q, webhooks %q", labeled, webhooks)
		}
		return nil
	})
}
