package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/test/harness"
)

// previewedGr is a gr whose upgrades are first previewed by REST and kubectl gcu, and
// then compared with the actual upgrade.
type previewedGr struct {
	*drivers
	left *harness.Departures
}

// Previews match what happens, node by node and task by task: for a limited upgrade of
// several components, for the rest of it, and for an upgrade that only replaces pods.
func TestAnUpgradeMatchesItsPreview(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	policy := soon()
	policy.Waves = []topsv1.Wave{{Name: "canary", Size: ptr.To(intstr.FromInt32(1)), SoakSeconds: 1},
		{Name: "some", Size: ptr.To(intstr.FromInt32(3)), Approval: topsv1.ApprovalManual}}
	left, err := harness.WatchDepartures(ctx, s.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	f := &previewedGr{left: left}
	f.drivers = s.newHeavy(ctx, t, "foretold", policy, "3/3", s.previewSpec("v1", "v1", "v1"))
	f.reaches(ctx, "there", complete)
	all := f.order(ctx)
	for _, node := range []string{all[1], all[3]} {
		f.trainingOn(ctx, node)
	}

	cut := []string{all[0], all[1], all[2], all[4]}
	told := f.getPreview(ctx, f.previewSpec("v2", "v2", "v1"), cut, []string{component.Driver, component.DevicePlugin})
	if len(told.Nodes) != len(cut) || len(told.Left) != stageNodes-len(cut) || told.Nodes[0].Wave != "canary" {
		t.Errorf("the preview has %d nodes, the first in wave %q, and %d left out", len(told.Nodes), told.Nodes[0].Wave, len(told.Left))
	}
	f.upgradeTo(ctx, told, f.previewSpec("v2", "v2", "v1"), "--nodes", names(cut), "--components", names([]string{component.Driver, component.DevicePlugin}))
	f.matchesPreview(ctx, told)

	// The rest: nothing is written, the limit is removed.
	told = f.getPreview(ctx, topsv1.GcuResourceSpec{}, nil, nil)
	if len(told.Nodes) != stageNodes-len(cut) {
		t.Errorf("%d nodes are left to do, want %d", len(told.Nodes), stageNodes-len(cut))
	}
	f.upgradeTo(ctx, told, topsv1.GcuResourceSpec{}, "--all")
	f.matchesPreview(ctx, told)

	told = f.getPreview(ctx, f.previewSpec("v2", "v3", "v3"), nil, nil)
	if len(told.Nodes) != stageNodes || len(told.Left) > 0 {
		t.Errorf("the preview has %d nodes and %+v left out", len(told.Nodes), told.Left)
	}
	f.upgradeTo(ctx, told, f.previewSpec("v2", "v3", "v3"))
	f.matchesPreview(ctx, told)
	if told = f.getPreview(ctx, f.previewSpec("v2", "v3", "v3"), nil, nil); len(told.Nodes) > 0 || len(told.Components) > 0 {
		t.Errorf("when everything is done the preview is %+v", told)
	}
	f.goesBack(ctx, all)
}

// order returns the nodes of the stage in upgrade order, which depends on their names.
func (f *previewedGr) order(ctx context.Context) []string {
	f.t.Helper()
	var all []string
	for _, n := range f.getPreview(ctx, f.previewSpec("v2", "v2", "v1"), nil, nil).Nodes {
		all = append(all, n.Name)
	}
	if len(all) != stageNodes {
		f.t.Fatalf("the preview has nodes %v, want all of %v", all, f.nodes)
	}
	return all
}

// goesBack: the preview of a rollback in the middle of an upgrade has only the nodes
// that are already upgraded.
func (f *previewedGr) goesBack(ctx context.Context, all []string) {
	f.t.Helper()
	forward := f.previewSpec("v2", "v4", "v3")
	told := f.getPreview(ctx, forward, all[:2], nil)
	f.upgradeTo(ctx, told, forward, "--nodes", names(all[:2]))
	f.matchesPreview(ctx, told)
	told = f.getPreview(ctx, f.previewSpec("v2", "v3", "v3"), nil, nil)
	if len(told.Nodes) != 2 || len(told.Left) > 0 {
		f.t.Errorf("the preview of the rollback has %d nodes and %+v left out, want two and none", len(told.Nodes), told.Left)
	}
	f.upgradeTo(ctx, told, f.previewSpec("v2", "v3", "v3"))
	f.matchesPreview(ctx, told)
}

func (s *stage) previewSpec(driver, plugin, gfd string) topsv1.GcuResourceSpec {
	gr := s.name("foretold")
	return topsv1.GcuResourceSpec{Driver: s.component(gr+"-driver", driver), DevicePlugin: s.component(gr+"-plugin", plugin), GFD: s.component(gr+"-gfd", gfd)}
}

// trainingOn starts a Deployment with a pod that uses GCUs on a node.
func (f *previewedGr) trainingOn(ctx context.Context, node string) {
	f.t.Helper()
	labels := map[string]string{"app": f.name + "-" + node}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: f.name + "-" + node}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node},
			Containers:   []corev1.Container{{Name: "main", Image: "training:1", Env: []corev1.EnvVar{{Name: "ENFLAME_VISIBLE_DEVICES", Value: "all"}}}},
		}}}}
	f.create(ctx, f.t, deployment)
	f.eventually(ctx, f.t, func() error {
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil || deployment.Status.AvailableReplicas == 1 {
			return err
		}
		return fmt.Errorf("the training on %s is not there: %+v", node, deployment.Status)
	})
}

// file writes a gr for kubectl gcu.
func (f *previewedGr) file(spec topsv1.GcuResourceSpec) string {
	f.t.Helper()
	gr := &topsv1.GcuResource{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind},
		ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: spec}
	data, err := json.Marshal(gr)
	path := filepath.Join(f.t.TempDir(), "gr.json")
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return path
}

// getPreview returns the preview of REST and of kubectl gcu, which must be equal; the
// empty spec means what is still to be done without a limit. It must not be called
// during an upgrade.
func (f *previewedGr) getPreview(ctx context.Context, spec topsv1.GcuResourceSpec, nodes, components []string) *preview.Preview {
	f.t.Helper()
	body, args := map[string]any{}, []string{"plan", f.name, "--approved", "-o", "json"}
	if spec.Driver == nil {
		body["all"], args = true, append(args, "--all")
	} else {
		path := f.file(spec)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(f.plane.blueprints, f.name+".json"), data, 0o644)
		}
		if err != nil {
			f.t.Fatal(err)
		}
		body["file"], args = f.name+".json", append(args, "-f", path)
	}
	if nodes != nil {
		body["nodes"], args = nodes, append(args, "--nodes", names(nodes))
	}
	if components != nil {
		body["components"], args = components, append(args, "--components", names(components))
	}
	data, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	asked := filepath.Join(f.t.TempDir(), "body.json")
	if err := os.WriteFile(asked, data, 0o600); err != nil {
		f.t.Fatal(err)
	}
	var byPlugin *preview.Preview
	// The cache of the manager that serves REST may lag, and the usual pace is written after the last node is complete.
	f.eventually(ctx, f.t, func() error {
		byPlugin = &preview.Preview{}
		if err := json.Unmarshal([]byte(f.gcu(ctx, f.t, f.Kubeconfig, 0, nil, args...)), byPlugin); err != nil {
			return err
		}
		answer := struct {
			Operation, Result, Error string
			Content                  *preview.Preview
		}{}
		said := f.plane.shell(ctx, f.t, "curl --silent --max-time 60 'http://<node-ip>:32765/gum/v1/gr/"+f.name+"/plan?approved=true' -d @"+asked)
		if err := json.Unmarshal([]byte(said), &answer); err != nil || answer.Result != "Success" {
			return fmt.Errorf("%w: %s", err, said)
		}
		if diff := cmp.Diff(byPlugin, answer.Content); diff != "" {
			return fmt.Errorf("kubectl gcu and REST differ (-plugin +REST):\n%s", diff)
		}
		return nil
	})
	if byPlugin.Blocked != "" || byPlugin.MaxUnavailable != 1 {
		f.t.Errorf("it is blocked (%s), or has the limit %d", byPlugin.Blocked, byPlugin.MaxUnavailable)
	}
	f.left.Take()
	return byPlugin
}

// upgradeTo runs the upgrade, approves its wave if a node is in or after it, and waits
// until it is complete; without a spec it only changes the limit.
func (f *previewedGr) upgradeTo(ctx context.Context, told *preview.Preview, spec topsv1.GcuResourceSpec, args ...string) {
	f.t.Helper()
	args = append([]string{"upgrade", f.name}, args...)
	if spec.Driver != nil {
		args = append(args, "-f", f.file(spec))
	}
	before := f.rollout(ctx).Status.Revision
	f.gcu(ctx, f.t, f.Kubeconfig, 0, []string{"is changed"}, args...)
	if slices.ContainsFunc(told.Nodes, func(n preview.Node) bool { return n.Wave != "canary" }) {
		f.eventually(ctx, f.t, func() error {
			r := f.rollout(ctx)
			if spec.Driver != nil && r.Status.Revision == before {
				return fmt.Errorf("revision %s is the one before", before)
			}
			metav1.SetMetaDataAnnotation(&r.ObjectMeta, topsv1.AnnotationApprovedWaves, r.Status.Revision+"/some")
			return f.Client.Update(ctx, r)
		})
	}
	f.gcu(ctx, f.t, f.Kubeconfig, 0, nil, append(args, "--wait", "--timeout", "10m")...)
	f.givenBack(ctx)
}

func (f *previewedGr) rollout(ctx context.Context) *topsv1.DaemonRollout {
	f.t.Helper()
	r := &topsv1.DaemonRollout{}
	if err := f.Client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: f.name}, r); err != nil {
		f.t.Fatal(err)
	}
	return r
}

// matchesPreview compares the preview with the order of pod deletions that an independent
// watch observed, and with the recorded operations of the nodes.
func (f *previewedGr) matchesPreview(ctx context.Context, told *preview.Preview) {
	f.t.Helper()
	var order []string
	replaced, evicted := map[string][]string{}, map[string][]string{}
	for _, d := range f.left.Take() {
		if !slices.Contains(f.nodes, d.Node) {
			continue
		}
		if !slices.Contains(order, d.Node) {
			order = append(order, d.Node)
		}
		if name := f.componentOf(d.DaemonSet); name != "" {
			replaced[d.Node] = append(replaced[d.Node], name)
		} else {
			evicted[d.Node] = append(evicted[d.Node], d.Pod)
		}
	}
	var wanted []string
	for _, n := range told.Nodes {
		wanted = append(wanted, n.Name)
		if diff := cmp.Diff(n.Replaces, inOrderOf(replaced[n.Name], n.Replaces)); diff != "" {
			f.t.Errorf("pods replaced on %s (-preview +actual):\n%s", n.Name, diff)
		}
		if diff := cmp.Diff(n.Evicts, evicted[n.Name]); diff != "" {
			f.t.Errorf("pods evicted from %s (-preview +actual):\n%s", n.Name, diff)
		}
		f.didTasks(ctx, told, n.Name)
	}
	if diff := cmp.Diff(wanted, order); diff != "" {
		f.t.Errorf("order of the nodes (-preview +actual):\n%s", diff)
	}
}

// didTasks compares the previewed tasks of a node with those of its last operation. A
// node on which only pods are replaced has none.
func (f *previewedGr) didTasks(ctx context.Context, told *preview.Preview, node string) {
	f.t.Helper()
	var tasks []string
	heavy := false
	for task := range told.Plan.All() {
		if task.Host == node {
			tasks = append(tasks, task.String())
			heavy = heavy || task.Action == "cordon"
		}
	}
	history := f.endedOperations(ctx)[node]
	if !heavy {
		return
	}
	last := history[len(history)-1]
	done := slices.Clone(last.Result.Done)
	slices.Sort(tasks)
	slices.Sort(done)
	if diff := cmp.Diff(tasks, done); diff != "" || last.Phase != topsv1.OperationDone {
		f.t.Errorf("the operation of %s is %s, tasks (-preview +actual):\n%s", node, last.Phase, diff)
	}
}

// inOrderOf sorts list in the order of another list, with additional elements last:
// pods that are replaced at the same time may be deleted in any order.
func inOrderOf(list, order []string) []string {
	slices.SortStableFunc(list, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return list
}

// componentOf returns the component of a DaemonSet, "" if it is not ours.
func (f *previewedGr) componentOf(daemonSet string) string {
	return map[string]string{f.name + "-driver": component.Driver, f.name + "-plugin": component.DevicePlugin, f.name + "-gfd": component.GFD}[daemonSet]
}
