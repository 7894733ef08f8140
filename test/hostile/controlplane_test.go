package hostile

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/apiserver"
)

const (
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	allowedLabel      = "node-restriction.kubernetes.io/gcu-components"
)

// Who has the token of the manager wants a privileged pod on a node of the control plane.
func TestTheTokenOfTheManagerDoesNotReachTheControlPlane(t *testing.T) {
	s := cluster(t)
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	ctx := t.Context()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "reaches"}, Spec: topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{NotDeploy: true}}}
	check(t, admin.Create(ctx, gr))
	early := selecting(privileged("early", gr), "reach", "tainted")
	allowed(t, "run a privileged pod on nodes of another label", func() error { return manager.Create(ctx, early) })

	tainted := addControlPlane(t, admin, "reach-tainted", controlPlaneLabel, map[string]string{"reach": "tainted", "feature.node.kubernetes.io/a": "true"})
	addControlPlane(t, admin, "reach-untainted", "node-role.kubernetes.io/etcd", map[string]string{"reach": "untainted"})
	addControlPlane(t, admin, "reach-old", "node-role.kubernetes.io/master", map[string]string{"reach": "old"})
	starting := addControlPlane(t, admin, "reach-starting", "node-role.kubernetes.io/etcd", map[string]string{"reach": "starting"})
	check(t, merge(ctx, admin, starting, `{"spec":{"taints":[{"key":"node.cloudprovider.kubernetes.io/uninitialized","value":"true","effect":"NoSchedule"}]}}`))
	awaitControlPlane(t, manager, gr)
	check(t, admin.Get(ctx, client.ObjectKeyFromObject(tainted), tainted))

	t.Run("refused", func(t *testing.T) {
		for what, o := range map[string]client.Object{
			"on every node":                  privileged("x", gr),
			"on the tainted node":            selecting(privileged("x", gr), "reach", "tainted"),
			"on the untainted node":          selecting(privileged("x", gr), "reach", "untainted"),
			"under the old name of the role": selecting(privileged("x", gr), "reach", "old"),
			"by a label that nfd may set":    selecting(privileged("x", gr), "feature.node.kubernetes.io/b", "true"),
			"with the network of the host":   with(gr, func(p *corev1.PodSpec) { p.HostNetwork = true }),
			"with the processes of the host": with(gr, func(p *corev1.PodSpec) { p.HostPID = true }),
			"with a capability": with(gr, func(p *corev1.PodSpec) {
				p.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
			}),
			"with a port of the host, such as that of the API server": with(gr, func(p *corev1.PodSpec) {
				p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 6443}}
			}),
			"with the root of the host": with(gr, hostPath("/", true)),
			"with libraries, to write":  with(gr, hostPath("/usr/lib", false)),
			"with devices, as root":     with(gr, hostPath("/sys", true)),
			"with a volume of any kind": with(gr, func(p *corev1.PodSpec) {
				p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
			}),
			"privileged for a moment":                                          with(gr, func(p *corev1.PodSpec) { p.InitContainers = []corev1.Container{privilegedContainer()} }),
			"in a Deployment that names a node":                                deployment(gr, func(p *corev1.PodSpec) { p.Containers[0] = privilegedContainer(); p.NodeName = "reach-tainted" }),
			"in a Deployment that is not repelled":                             deployment(gr, func(p *corev1.PodSpec) { p.Containers[0] = privilegedContainer(); tolerateAll(p) }),
			"in a Deployment that is repelled only until the node has started": selecting(deployment(gr, hostPath("/", false)), "reach", "starting"),
			"through a scheduler that ignores taints":                          deployment(gr, func(p *corev1.PodSpec) { p.Containers[0] = privilegedContainer(); p.SchedulerName = "mine" }),
		} {
			err := manager.Create(ctx, o, client.DryRunAll)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "of the control plane, with privileges") || !strings.Contains(err.Error(), allowedLabel+"=allowed") {
				t.Errorf("privileged pods %s: %v", what, err)
			}
		}
		if err := merge(ctx, manager, early, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`); !apierrors.IsForbidden(err) {
			t.Errorf("change the pods of a DaemonSet that selects a node which joined the control plane later: %v", err)
		}
	})
	t.Run("labels, taints and the node itself", func(t *testing.T) {
		for _, account := range []string{apiserver.Operator, "system:serviceaccount:kube-system:nfd-service-account", "system:serviceaccount:other:gcushare-device-plugin"} {
			c := labelsNodes(t, s, account)
			for what, attempt := range map[string]func() error{
				"give it the label of the components": func() error { return label(ctx, c, tainted, "enflame.com/gcu.present", `"true"`) },
				"take its role":                       func() error { return label(ctx, c, tainted, controlPlaneLabel, "null") },
				"let it have components":              func() error { return label(ctx, c, tainted, allowedLabel, `"allowed"`) },
				"give it a zone":                      func() error { return label(ctx, c, tainted, "zone", `"b"`) },
				"take its taint":                      func() error { return merge(ctx, c, tainted, `{"spec":{"taints":null}}`, client.DryRunAll) },
				"add a taint": func() error {
					patch := `[{"op":"add","path":"/spec/taints/-","value":{"key":"node.cilium.io/agent-not-ready","effect":"NoSchedule"}}]` // the node controller has added one
					return c.Patch(ctx, tainted.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(patch)), client.DryRunAll)
				},
				"give it the label in a write of its status": func() error {
					patch := fmt.Sprintf(`{"metadata":{"labels":{"enflame.com/gcu.present":"true",%q:null}}}`, controlPlaneLabel)
					return c.Status().Patch(ctx, tainted.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
				},
				"delete it": func() error { return c.Delete(ctx, tainted, client.DryRunAll) },
			} {
				if err := attempt(); !apierrors.IsForbidden(err) {
					t.Errorf("%s: %s: %v", account, what, err)
				}
			}
		}
		check(t, label(ctx, labelsNodes(t, s, "system:serviceaccount:kube-system:nfd-service-account"), tainted, "feature.node.kubernetes.io/pci-1e36.present", `"true"`))
	})
	t.Run("allowed", func(t *testing.T) {
		for what, o := range map[string]client.Object{
			"on GCU nodes":                          selecting(privileged("x", gr), topsv1.LabelGcuPresent, "true"),
			"in a Deployment that the taints repel": selecting(deployment(gr, hostPath("/", false)), "reach", "tainted"),
		} {
			if err := manager.Create(ctx, o, client.DryRunAll); err != nil {
				t.Errorf("privileged pods %s: %v", what, err)
			}
		}
		check(t, merge(ctx, manager, early, `{"metadata":{"annotations":{"a":"b"}}}`))
		check(t, manager.Delete(ctx, early))
	})
	t.Run("every component with its built-in values", func(t *testing.T) { createAllComponents(t, manager, gr) })
	t.Run("an administrator lets nodes of the control plane have components", func(t *testing.T) {
		for _, name := range []string{"reach-tainted", "reach-untainted", "reach-old", "reach-starting"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			check(t, merge(ctx, admin, node, fmt.Sprintf(`{"metadata":{"labels":{%q:"allowed"}}}`, allowedLabel)))
			allowed(t, "label it", func() error { return label(ctx, manager, node, topsv1.LabelGcuPresent, `"true"`) })
		}
		allowed(t, "run a privileged pod there", func() error { return manager.Create(ctx, privileged("x", gr), client.DryRunAll) })
	})
}

// createAllComponents creates the workloads of every component, as the manager would.
func createAllComponents(t *testing.T, manager client.Client, gr *topsv1.GcuResource) {
	t.Helper()
	all := gr.DeepCopy()
	all.Spec = topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{}, DevicePlugin: &topsv1.BaseFields{},
		Exporter: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}, GcusharePlugin: &topsv1.GcusharePluginSpec{}, GcushareScheduler: &topsv1.BaseFields{}}
	components, err := component.Render(all, "revision")
	check(t, err)
	for _, c := range components {
		for _, o := range c.Objects {
			if !o.Ref.Workload() {
				continue
			}
			if err := manager.Create(t.Context(), o.Object.DeepCopy(), client.DryRunAll); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
}

// addControlPlane creates a node with a label of the control plane; only the role control-plane has a taint.
func addControlPlane(t *testing.T, admin client.Client, name, role string, labels map[string]string) *corev1.Node {
	t.Helper()
	labels[role] = ""
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if role == controlPlaneLabel {
		node.Spec.Taints = []corev1.Taint{{Key: role, Effect: corev1.TaintEffectNoSchedule}}
	}
	check(t, admin.Create(t.Context(), node))
	t.Cleanup(func() { check(t, admin.Delete(context.Background(), node)) })
	return node
}

// awaitControlPlane waits until the API server enforces the policies for each of the nodes.
func awaitControlPlane(t *testing.T, manager client.Client, gr *topsv1.GcuResource) {
	t.Helper()
	for _, value := range []string{"tainted", "untainted", "old", "starting"} {
		check(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			err := manager.Create(ctx, selecting(privileged("await", gr), "reach", value), client.DryRunAll)
			return apierrors.IsForbidden(err), nil
		}))
	}
}

func privilegedContainer() corev1.Container {
	return corev1.Container{Name: "p", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}
}

// tolerateAll lets a pod run on nodes with any taint.
func tolerateAll(p *corev1.PodSpec) {
	p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// with returns a DaemonSet of a gr that runs everywhere, changed.
func with(gr *topsv1.GcuResource, change func(*corev1.PodSpec)) *appsv1.DaemonSet {
	ds := daemonSet("x", "", controlledBy(gr))
	tolerateAll(&ds.Spec.Template.Spec)
	change(&ds.Spec.Template.Spec)
	return ds
}

func privileged(name string, gr *topsv1.GcuResource) *appsv1.DaemonSet {
	ds := with(gr, func(p *corev1.PodSpec) { p.Containers[0] = privilegedContainer() })
	ds.Name = name
	return ds
}

// hostPath mounts a path of the node.
func hostPath(path string, readOnly bool) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) {
		p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}}
		p.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: readOnly}}
	}
}

func deployment(gr *topsv1.GcuResource, change func(*corev1.PodSpec)) *appsv1.Deployment {
	ds := daemonSet("x", "", controlledBy(gr))
	change(&ds.Spec.Template.Spec)
	return &appsv1.Deployment{ObjectMeta: ds.ObjectMeta, Spec: appsv1.DeploymentSpec{Selector: ds.Spec.Selector, Template: ds.Spec.Template}}
}

// selecting sets the node selector of a workload.
func selecting[W client.Object](workload W, key, value string) W {
	switch w := any(workload).(type) {
	case *appsv1.DaemonSet:
		w.Spec.Template.Spec.NodeSelector = map[string]string{key: value}
	case *appsv1.Deployment:
		w.Spec.Template.Spec.NodeSelector = map[string]string{key: value}
	}
	return workload
}

func label(ctx context.Context, c client.Client, node *corev1.Node, key, value string) error {
	return merge(ctx, c, node, fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value), client.DryRunAll)
}

// labelsNodes returns a client of an account whose role lets it write nodes, in a pod of node reach-tainted.
func labelsNodes(t *testing.T, s *apiserver.Server, account string) client.Client {
	t.Helper()
	return as(t, s, rest.ImpersonationConfig{UserName: account, Groups: []string{"system:masters"}, Extra: map[string][]string{nodeNameClaim: {"reach-tainted"}}})
}

// Root on a node has the credential of its kubelet. The manager, whose token is worth more, goes to
// the node with a label; so do components on the control plane.
func TestAKubeletDrawsNeitherTheManagerNorComponentsToItsNode(t *testing.T) {
	s := cluster(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "draws"}}
	check(t, s.Client(t, apiserver.Admin).Create(t.Context(), node))
	kubelet := as(t, s, rest.ImpersonationConfig{UserName: "system:node:draws", Groups: []string{"system:nodes", "system:masters"}})
	var example struct {
		Patches []struct{ Patch string }
	}
	read(t, "examples/rest-api/kustomization.yaml", &example)
	var operations []struct {
		Path  string
		Value any
	}
	check(t, yaml.Unmarshal([]byte(example.Patches[0].Patch), &operations))
	keys := []string{allowedLabel}
	for _, o := range operations {
		if selector, ok := o.Value.(map[string]any); ok && o.Path == "/spec/template/spec/nodeSelector" {
			keys = slices.AppendSeq(keys, maps.Keys(selector))
		}
	}
	if len(keys) != 2 {
		t.Fatalf("labels %q: want one of the example", keys)
	}
	check(t, label(t.Context(), kubelet, node, "zone", `"a"`))
	for _, key := range keys {
		if err := label(t.Context(), kubelet, node, key, `"allowed"`); !apierrors.IsForbidden(err) {
			t.Errorf("a kubelet sets label %s of its node: %v", key, err)
		}
	}
	var manager appsv1.Deployment
	read(t, "config/manager/deployment.yaml", &manager)
	if manager.Spec.Template.Spec.Affinity == nil {
		t.Fatal("the manager runs on any node")
	}
	preferred := manager.Spec.Template.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	want := corev1.NodeSelectorRequirement{Key: controlPlaneLabel, Operator: corev1.NodeSelectorOpExists}
	if len(preferred) != 1 || len(preferred[0].Preference.MatchExpressions) != 1 || !cmp.Equal(preferred[0].Preference.MatchExpressions[0], want) {
		t.Errorf("the manager prefers %v", preferred)
	}
}

// read decodes a YAML file of the project.
func read(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", path))
	check(t, err)
	check(t, yaml.Unmarshal(raw, into))
}
