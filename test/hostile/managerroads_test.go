package hostile

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// forbidden waits until the API server enforces the policy that forbids a call.
func forbidden(t *testing.T, what string, call func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = call()
		return apierrors.IsForbidden(last) || last != nil && strings.Contains(last.Error(), "no params found for policy binding"), nil
	})
	if err != nil {
		t.Errorf("%s: %v, want that it is forbidden", what, last)
	}
}

// allForbidden is forbidden for several calls; the first may have to wait.
func allForbidden(t *testing.T, calls map[string]func() error) {
	t.Helper()
	for what, call := range calls {
		forbidden(t, what, call)
	}
}

// A forged readiness, or a forged address, takes the traffic of a Service or hides a failure.
func TestTheTokenOfTheManagerForgesNoStatusOfPods(t *testing.T) {
	s := cluster(t)
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	ctx := t.Context()
	pod := &corev1.Pod{ObjectMeta: inOperators("status"), Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	check(t, admin.Create(ctx, pod))
	check(t, status(ctx, admin, pod, `{"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"conditions":[{"type":"Ready","status":"False"}]}}`))
	allForbidden(t, map[string]func() error{
		"ready": func() error {
			return status(ctx, manager, pod, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, client.DryRunAll)
		},
		"an address": func() error {
			return status(ctx, manager, pod, `{"status":{"podIP":"10.0.0.2","podIPs":[{"ip":"10.0.0.2"},{"$patch":"replace"}]}}`, client.DryRunAll)
		},
		"a phase":  func() error { return status(ctx, manager, pod, `{"status":{"phase":"Failed"}}`, client.DryRunAll) },
		"a reason": func() error { return status(ctx, manager, pod, `{"status":{"reason":"Evicted"}}`, client.DryRunAll) },
		"another condition": func() error {
			return status(ctx, manager, pod, `{"status":{"conditions":[{"type":"x","status":"True"}]}}`, client.DryRunAll)
		},
		"no condition": func() error {
			return status(ctx, manager, pod, `{"status":{"conditions":[{"type":"Ready","$patch":"delete"}]}}`, client.DryRunAll)
		},
		"a label": func() error {
			return status(ctx, manager, pod, `{"metadata":{"labels":{"app":"victim"}}}`, client.DryRunAll)
		},
	})
	for _, own := range []corev1.PodConditionType{topsv1.PodNeedUpgrade, topsv1.PodImageReady, "topsops.enflame.com/Fenced"} {
		check(t, status(ctx, manager, pod, `{"status":{"conditions":[{"type":"`+string(own)+`","status":"True"}]}}`))
	}
}

// status patches the status of a pod as the manager does.
func status(ctx context.Context, c client.Client, pod *corev1.Pod, patch string, options ...client.SubResourcePatchOption) error {
	return c.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)), options...)
}

// Pods of kube-proxy and of the network belong to DaemonSets too.
func TestTheTokenOfTheManagerDeletesPodsOfItsGroupsOnly(t *testing.T) {
	s := cluster(t)
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	ctx := t.Context()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "groups"}, Spec: topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{NotDeploy: true}}}
	check(t, admin.Create(ctx, gr))
	optedIn, component := daemonSet("opted-in", ""), daemonSet("component", "", controlledBy(gr))
	optedIn.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}
	podOf := map[string]*corev1.Pod{}
	for _, ds := range []*appsv1.DaemonSet{daemonSet("kube-proxy", ""), optedIn, component} {
		check(t, admin.Create(ctx, ds))
		podOf[ds.Name] = ofDaemonSet(ds.Name, ds.UID)
	}
	podOf["gone"] = ofDaemonSet("gone", "uid-gone")
	podOf["gone"].Namespace = "default" // without any DaemonSet
	for _, pod := range podOf {
		check(t, admin.Create(ctx, pod))
	}
	forbidden(t, "delete the pod of DaemonSet kube-proxy", func() error { return manager.Delete(ctx, podOf["kube-proxy"], client.DryRunAll) })
	for _, name := range []string{"opted-in", "component", "gone"} {
		allowed(t, "delete the pod of DaemonSet "+name, func() error { return manager.Delete(ctx, podOf[name]) })
	}
}

func ofDaemonSet(name string, uid types.UID) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: inOperators(name + "-pod"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name, UID: uid, Controller: ptr.To(true)}}
	return pod
}

func TestTheTokenOfTheManagerTakesNoLeaseOfOthers(t *testing.T) {
	s := cluster(t)
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	ctx := t.Context()
	scheduler := &coordinationv1.Lease{ObjectMeta: inOperators("kube-scheduler"), Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("the scheduler")}}
	check(t, admin.Create(ctx, scheduler))
	allForbidden(t, map[string]func() error{
		"take the lease of the scheduler": func() error {
			stolen := scheduler.DeepCopy()
			stolen.Spec.HolderIdentity = ptr.To("me")
			return manager.Update(ctx, stolen)
		},
		"create a lease that something else will want": func() error {
			return manager.Create(ctx, &coordinationv1.Lease{ObjectMeta: inOperators("cloud-controller-manager")}, client.DryRunAll)
		},
	})
	own := &coordinationv1.Lease{ObjectMeta: inOperators(inquiry.LeaseName)}
	check(t, manager.Create(ctx, own))
	t.Cleanup(func() { check(t, admin.Delete(context.Background(), own)) })
	check(t, manager.Get(ctx, client.ObjectKeyFromObject(own), own))
	own.Spec.HolderIdentity = ptr.To("me")
	check(t, manager.Update(ctx, own))
}

// Who names an address in a Service takes its traffic; who converts a kind sees every object of it.
func TestTheTokenOfTheManagerOpensNoServiceAndConvertsNoKind(t *testing.T) {
	s := cluster(t)
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	check(t, apiextensionsv1.AddToScheme(s.Scheme))
	ctx := t.Context()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "serves"}, Spec: topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{NotDeploy: true}}}
	check(t, admin.Create(ctx, gr))
	service := func(name string, change func(*corev1.ServiceSpec)) *corev1.Service {
		o := &corev1.Service{ObjectMeta: inOperators(name), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}}}
		o.OwnerReferences = controlledBy(gr)
		change(&o.Spec)
		return o
	}
	mine := service("mine", func(*corev1.ServiceSpec) {})
	allowed(t, "create a Service of a component", func() error { return manager.Create(ctx, mine) })
	kind := crd("nodefeaturerules.nfd.k8s-sigs.io")
	kind.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, for a test"}
	allowed(t, "define a kind of nfd", func() error { return manager.Create(ctx, kind) })
	webhook := `{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://example.com"}}}`
	allForbidden(t, map[string]func() error{
		"take an address": func() error {
			return merge(ctx, manager, mine, `{"spec":{"externalIPs":["192.0.2.1"]}}`, client.DryRunAll)
		},
		"create one with an address": func() error {
			return manager.Create(ctx, service("x", func(spec *corev1.ServiceSpec) { spec.ExternalIPs = []string{"192.0.2.1"} }), client.DryRunAll)
		},
		"point to another name": func() error {
			return manager.Create(ctx, service("x", func(spec *corev1.ServiceSpec) { spec.Type, spec.ExternalName = "ExternalName", "example.com" }), client.DryRunAll)
		},
		"get a load balancer": func() error { return merge(ctx, manager, mine, `{"spec":{"type":"LoadBalancer"}}`, client.DryRunAll) },
		"convert a kind": func() error {
			return merge(ctx, manager, kind, `{"spec":{"conversion":`+webhook+`}}`, client.DryRunAll)
		},
		"create a ConfigMap of a name of others": func() error {
			o := &corev1.ConfigMap{ObjectMeta: inOperators("coredns")}
			o.OwnerReferences = controlledBy(gr)
			return manager.Create(ctx, o, client.DryRunAll)
		},
	})
	t.Run("every object of every component", func(t *testing.T) { createEverything(t, admin, manager, gr) })
}

// createEverything creates all objects of all components, as the manager would.
func createEverything(t *testing.T, admin, manager client.Client, gr *topsv1.GcuResource) {
	t.Helper()
	ctx := t.Context()
	for _, namespace := range []string{"enflame", "volcano-system"} {
		check(t, admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	}
	all := gr.DeepCopy()
	all.Spec = topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{}, DevicePlugin: &topsv1.BaseFields{},
		Exporter: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}, GcusharePlugin: &topsv1.GcusharePluginSpec{}, GcushareScheduler: &topsv1.BaseFields{},
		Nightingale: &topsv1.NightingaleSpec{}, Volcano: &topsv1.VolcanoSpec{}}
	components, err := component.Render(all, "revision")
	check(t, err)
	for _, c := range components {
		for _, o := range c.Objects {
			if o.Ref.Installed() || o.Ref.Webhook() {
				continue
			}
			if err := manager.Create(ctx, o.Object.DeepCopy(), client.DryRunAll); client.IgnoreAlreadyExists(err) != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
}

// A DaemonSet that asks for upgrades may be taken back to its last good template, not taken over.
func TestTheTokenOfTheManagerTakesNoDaemonSetOver(t *testing.T) {
	s := cluster(t)
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	ctx := t.Context()
	optedIn := map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}
	never, mine := daemonSet("never-rolled-back", ""), daemonSet("rolled-back", "")
	never.Annotations = optedIn
	mine.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationUpgradePolicy: "careful"}
	check(t, admin.Create(ctx, never))
	check(t, admin.Create(ctx, mine))
	change := func(ds *appsv1.DaemonSet, patch string) func() error {
		return func() error {
			return manager.Patch(ctx, ds.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)), client.DryRunAll)
		}
	}
	template := func(patch string) string { return `{"spec":{"template":{"spec":` + patch + `}}}` }
	image := template(`{"containers":[{"name":"c","image":"earlier"}]}`)
	allForbidden(t, map[string]func() error{
		"change one without a policy":       change(never, image),
		"annotate":                          change(mine, `{"metadata":{"annotations":{"topsops.enflame.com/paused":"true"}}}`),
		"label":                             change(mine, `{"metadata":{"labels":{"a":"b"}}}`),
		"stop its updates":                  change(mine, `{"spec":{"minReadySeconds":1000}}`),
		"run it as another account":         change(mine, template(`{"serviceAccountName":"nfd-service-account"}`)),
		"give it the network of the host":   change(mine, template(`{"hostNetwork":true}`)),
		"give it the processes of the host": change(mine, template(`{"hostPID":true}`)),
		"make it privileged":                change(mine, template(`{"containers":[{"name":"c","securityContext":{"privileged":true}}]}`)),
		"give it a capability":              change(mine, template(`{"containers":[{"name":"c","securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}}]}`)),
		"mount the root of the host":        change(mine, template(`{"volumes":[{"name":"root","hostPath":{"path":"/"}}]}`)),
	})
	allowed(t, "take it back", change(mine, image))
}

// A volume that chooses a claim, or has the class of one, gets what its owner stores.
func TestTheTokenOfTheManagerTakesNoClaimOfOthers(t *testing.T) {
	s := cluster(t)
	ctx := t.Context()
	manager := s.Client(t, apiserver.Operator)
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "stores"}, Spec: topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{NotDeploy: true}}}
	check(t, s.Client(t, apiserver.Admin).Create(ctx, gr))
	volume := func(name string, change func(*corev1.PersistentVolumeSpec), dry ...client.CreateOption) func() error {
		o := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: controlledBy(gr)}, Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}}}
		change(&o.Spec)
		return func() error { return manager.Create(ctx, o.DeepCopy(), dry...) }
	}
	claim := &corev1.ObjectReference{Namespace: "default", Name: "data"}
	allowed(t, "create a volume", volume("stores", func(*corev1.PersistentVolumeSpec) {}))
	mine := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "stores"}}
	check(t, merge(ctx, manager, mine, `{"metadata":{"annotations":{"a":"b"}}}`))
	allForbidden(t, map[string]func() error{
		"create one for a claim": volume("x", func(v *corev1.PersistentVolumeSpec) { v.ClaimRef = claim }, client.DryRunAll),
		"create one of a class":  volume("x", func(v *corev1.PersistentVolumeSpec) { v.StorageClassName = "standard" }, client.DryRunAll),
		"create one elsewhere": volume("x", func(v *corev1.PersistentVolumeSpec) {
			v.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "example.com", Path: "/"}}
		}, client.DryRunAll),
		"give it a claim": func() error {
			return merge(ctx, manager, mine, `{"spec":{"claimRef":{"namespace":"default","name":"data"}}}`, client.DryRunAll)
		},
		"give it a class": func() error {
			return merge(ctx, manager, mine, `{"spec":{"storageClassName":"standard"}}`, client.DryRunAll)
		},
		"give it a class by the annotation that Kubernetes reads first": func() error {
			return merge(ctx, manager, mine, `{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"standard"}}}`, client.DryRunAll)
		},
	})
}

// What SECURITY.md says is not stopped: the controller of a workload may be invented, its namespace is free, and
// so are the Secrets and the account "default" of that namespace.
func TestWhatTheTokenOfTheManagerReachesNevertheless(t *testing.T) {
	s := cluster(t)
	manager := s.Client(t, apiserver.Operator)
	invented := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "invented", UID: "uid-invented"}}
	ds := selecting(privileged("reaching", invented), topsv1.LabelGcuPresent, "true")
	ds.Namespace = "default"
	ds.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "any"}}}}
	allowed(t, "run a pod with any Secret, and as the default account, of any namespace", func() error {
		return manager.Create(t.Context(), ds, client.DryRunAll)
	})
}
