package gcuresource

import (
	"context"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/test/world"
)

// parts are the Deployments of nightingale.
var parts = []string{"agentd", "mysql", "nserver", "nwebapi", "prometheus", "redis"}

// create creates a gr with a spec.
func (s *stage) create(name string, spec topsv1.GcuResourceSpec) *topsv1.GcuResource {
	s.t.Helper()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	s.must(s.Create(context.Background(), gr))
	return gr
}

// change edits the spec of a gr.
func (s *stage) change(name string, edit func(*topsv1.GcuResourceSpec)) {
	s.t.Helper()
	s.edit(name, func(gr *topsv1.GcuResource) { edit(&gr.Spec) })
}

// password returns the password of the database.
func (s *stage) password(namespace string) string {
	s.t.Helper()
	secret := &corev1.Secret{}
	s.has(secret, namespace, "nightingale-mysql")
	return string(secret.Data["password"])
}

func TestNightingaleOnAnAPIServer(t *testing.T) {
	s := newStage(t, "node-1")
	s.dropNamespace("watching")
	s.create("monitor", topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{Namespace: "watching"}})
	s.has(&appsv1.Deployment{}, "watching", "redis")
	s.reaches("monitor", "deploying", "0/1")
	s.sees("monitor", "nightingale", "deploying", "waiting for Deployment watching/agentd (0 of 1 replicas available), "+
		"Deployment watching/mysql (0 of 1 replicas available), Deployment watching/nserver (0 of 1 replicas available), "+
		"Deployment watching/nwebapi (0 of 1 replicas available), Deployment watching/prometheus (0 of 1 replicas available) and 1 more")
	s.available("watching", parts...)
	s.reaches("monitor", "Running", "1/1")
	s.settles("monitor")
	password := s.password("watching")
	if len(password) < 20 {
		t.Errorf("the password is %q", password)
	}

	t.Run("what somebody changes or deletes comes back", func(t *testing.T) {
		s.remove(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "watching", Name: "redis"}})
		redis := &appsv1.Deployment{}
		s.must(s.get(redis, "watching", "redis"))
		image := redis.Spec.Template.Spec.Containers[0].Image
		redis.Spec.Template.Spec.Containers[0].Image = "somebody/else:v1"
		s.must(s.Update(context.Background(), redis))
		s.has(&corev1.Service{}, "watching", "redis")
		s.until("restoring the image", func() string {
			s.must(s.get(redis, "watching", "redis"))
			if got := redis.Spec.Template.Spec.Containers[0].Image; got != image {
				return got
			}
			return ""
		})
		s.available("watching", "redis")
		s.reaches("monitor", "Running", "1/1")
	})
	t.Run("a new version is an upgrade that Kubernetes carries out", func(t *testing.T) {
		s.change("monitor", func(spec *topsv1.GcuResourceSpec) { spec.Nightingale.Redis = &topsv1.BaseFields{Version: "v2"} })
		s.reaches("monitor", "upgrading", "0/1")
		if got := world.Action(s.gr("monitor").Status, "upgrade"); got.Reason != status.ReasonUpgrading || got.Message != "5 of 6 pods at the newest revision" {
			t.Errorf("upgrade is %+v", got)
		}
		s.available("watching", "redis")
		s.reaches("monitor", "Running", "1/1")
	})
	t.Run("what it owned goes with it, the password and the namespace stay", func(t *testing.T) {
		s.change("monitor", func(spec *topsv1.GcuResourceSpec) { spec.Nightingale.NotDeploy = true })
		for _, name := range parts {
			s.isGone(&appsv1.Deployment{}, "watching", name)
		}
		s.until("letting go of the volume", func() string {
			s.release()
			if s.get(&corev1.PersistentVolume{}, "", "mysql-pv") == nil || s.get(&corev1.PersistentVolumeClaim{}, "watching", "mysql-pvc") == nil {
				return "it exists"
			}
			return ""
		})
		s.isGone(&corev1.Service{}, "watching", "mysql")
		s.reaches("monitor", "Running", "0/0")
		s.change("monitor", func(spec *topsv1.GcuResourceSpec) { spec.Nightingale.NotDeploy = false })
		s.available("watching", parts...)
		s.reaches("monitor", "Running", "1/1")
		if got := s.password("watching"); got != password {
			t.Errorf("the password changed from %q to %q", password, got)
		}
	})
}

func TestAPasswordThatExistsIsUsed(t *testing.T) {
	s := newStage(t, "node-1")
	s.dropNamespace("prepared")
	ctx := context.Background()
	s.must(s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prepared", Labels: map[string]string{"team": "a"}}}))
	s.must(s.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prepared", Name: "nightingale-mysql"},
		StringData: map[string]string{"password": "chosen by a person"}}))
	s.create("brought", topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{Namespace: "prepared"}})
	s.available("prepared", parts...)
	s.reaches("brought", "Running", "1/1")
	if got := s.password("prepared"); got != "chosen by a person" {
		t.Errorf("the password is %q", got)
	}
	namespace := &corev1.Namespace{}
	s.must(s.get(namespace, "", "prepared"))
	if namespace.Labels[topsv1.LabelManagedBy] != "" {
		t.Errorf("the namespace was taken over: %v", namespace.Labels)
	}
}

func TestANamespaceThatIsBeingDeletedIsWaitedFor(t *testing.T) {
	s := newStage(t, "node-1")
	s.dropNamespace("leaving")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}}
	s.must(s.Create(context.Background(), namespace))
	s.remove(namespace)
	s.create("patient", topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{Namespace: "leaving"}})
	s.sees("patient", "nightingale", "failed",
		"namespace leaving is being deleted: Secret leaving/nightingale-mysql is applied when that is over")
	s.finalize("leaving")
	s.available("leaving", parts...)
	s.reaches("patient", "Running", "1/1")
}

func TestANamespaceThatIsMissingIsNamed(t *testing.T) {
	s := newStage(t, "node-1")
	s.dropNamespace("later")
	s.create("placed", topsv1.GcuResourceSpec{Exporter: &topsv1.BaseFields{Namespace: "later"}})
	s.sees("placed", "exporter", "failed", "namespace later does not exist: create it, Service later/enflame-gcu-exporter goes there")
	s.must(s.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}}))
	s.has(&appsv1.DaemonSet{}, "later", "enflame-gcu-exporter")
	s.reaches("placed", "deploying", "0/1")
}

// Without a strategy, the DaemonSet of a component that moves is deleted at once, with its pods on all nodes.
func TestAComponentStaysUntilItsNewNamespaceExists(t *testing.T) {
	s := newStage(t, "node-1")
	s.dropNamespace("later")
	s.create("moves", topsv1.GcuResourceSpec{Exporter: &topsv1.BaseFields{}})
	s.has(&appsv1.DaemonSet{}, "kube-system", "enflame-gcu-exporter")
	s.edit("moves", func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Namespace = "later" })
	s.sees("moves", "exporter", "failed", "namespace later does not exist: create it, DaemonSet later/enflame-gcu-exporter goes there")
	ds := &appsv1.DaemonSet{}
	s.must(s.Get(context.Background(), client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-exporter"}, ds))
	if ds.DeletionTimestamp != nil {
		t.Error("the DaemonSet is being deleted")
	}
	s.must(s.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}}))
	s.has(&appsv1.DaemonSet{}, "later", "enflame-gcu-exporter")
}

// volcanoParts are the Deployments of volcano.
var volcanoParts = []string{"volcano-admission", "volcano-controllers", "volcano-scheduler"}

func queueCRD() *unstructured.Unstructured {
	crd := nfdCRD()
	crd.SetName("queues.scheduling.volcano.sh")
	return crd
}

func TestVolcanoOnAnAPIServer(t *testing.T) {
	s := newStage(t, "node-1")
	s.dropNamespace("volcano-system")
	ctx := context.Background()
	hooks := &admissionv1.ValidatingWebhookConfiguration{}
	s.create("batch", topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{}})
	s.after = append(s.after, func() {
		var crds unstructured.UnstructuredList
		crds.SetGroupVersionKind(nfdCRD().GroupVersionKind())
		s.must(s.List(ctx, &crds))
		for i := range crds.Items {
			if strings.HasSuffix(crds.Items[i].GetName(), ".volcano.sh") {
				s.remove(&crds.Items[i])
			}
		}
	})
	s.complete("volcano-system", "volcano-admission-init")
	s.available("volcano-system", volcanoParts[:2]...)
	s.sees("batch", "volcano", "deploying", "waiting for Deployment volcano-system/volcano-scheduler (0 of 1 replicas available)")
	if err := s.get(hooks, "", "volcano-admission-service-pods-validate"); err == nil {
		t.Error("a webhook exists before what answers it runs")
	}
	s.available("volcano-system", volcanoParts[2])
	s.reaches("batch", "Running", "1/1")
	s.must(s.get(hooks, "", "volcano-admission-service-pods-validate"))

	t.Run("the certificate that the webhook manager adds is left alone", func(t *testing.T) {
		certificate, _, err := cert.GenerateSelfSignedCertKey("volcano-admission-service.volcano-system.svc", nil, nil)
		s.must(err)
		hooks.Webhooks[0].ClientConfig.CABundle = certificate
		hooks.Webhooks[0].TimeoutSeconds = ptr.To[int32](3)
		s.must(s.Update(ctx, hooks))
		s.until("putting our own field back", func() string {
			s.must(s.get(hooks, "", hooks.Name))
			if *hooks.Webhooks[0].TimeoutSeconds != 10 {
				return "it is changed"
			}
			return ""
		})
		if string(hooks.Webhooks[0].ClientConfig.CABundle) != string(certificate) {
			t.Error("the certificate is gone")
		}
	})
	t.Run("a CRD that somebody deletes comes back", func(t *testing.T) {
		uid := func() string {
			crd := queueCRD()
			if s.get(crd, "", crd.GetName()) != nil {
				return ""
			}
			return string(crd.GetUID())
		}
		before := uid()
		s.remove(queueCRD())
		s.until("recreating the CRD", func() string {
			if now := uid(); now == "" || now == before {
				return "it is missing"
			}
			return ""
		})
	})
	t.Run("a Job that failed is said, and made again when it is deleted", func(t *testing.T) {
		job := &batchv1.Job{}
		s.must(s.get(job, "volcano-system", "volcano-admission-init"))
		s.must(s.Delete(ctx, job, backgroundly))
		s.sees("batch", "volcano", "deploying", "waiting for Job volcano-system/volcano-admission-init (not complete)")
		s.complete("volcano-system", "volcano-admission-init")
		s.reaches("batch", "Running", "1/1")
	})
	s.settles("batch")
	t.Run("webhooks go first, CRDs stay, and it can be deployed again", func(t *testing.T) {
		s.remove(queueCRD()) // a missing CRD of a component does not block anything
		s.written()
		s.must(s.Delete(ctx, s.gr("batch")))
		s.isGone(&topsv1.GcuResource{}, "", "batch")
		var deleted []string
		for _, write := range s.written() {
			if name, ok := strings.CutPrefix(write, "delete "); ok {
				deleted = append(deleted, name)
			}
		}
		last := slices.IndexFunc(deleted, func(name string) bool { return !strings.HasPrefix(name, "volcano-admission-service-") })
		if last != 7 {
			t.Errorf("deleted in this order: %v", deleted)
		}
		jobs := nfdCRD()
		s.must(s.get(jobs, "", "jobs.batch.volcano.sh"))
		s.create("batch", topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{}})
		s.complete("volcano-system", "volcano-admission-init")
		s.available("volcano-system", volcanoParts...)
		s.reaches("batch", "Running", "1/1")
	})
}

func TestSharedCardsOnAnAPIServer(t *testing.T) {
	s := newStage(t, "node-1", "node-2")
	shared := func(name, want string) {
		t.Helper()
		s.until("label of "+name, func() string {
			node := &corev1.Node{}
			s.must(s.get(node, "", name))
			if got := node.Labels[topsv1.LabelGcushare]; got != want {
				return "it is " + got
			}
			return ""
		})
	}
	s.create("share", topsv1.GcuResourceSpec{
		GcusharePlugin: &topsv1.GcusharePluginSpec{GcushareNodes: []string{"node-2"}}, GcushareScheduler: &topsv1.BaseFields{}})
	shared("node-2", "true")
	shared("node-1", "")
	s.play("gcushare-device-plugin")
	s.available("kube-system", "gcushare-scheduler-extender")
	s.reaches("share", "Running", "2/2")
	s.settles("share")
	s.change("share", func(spec *topsv1.GcuResourceSpec) { spec.GcusharePlugin.GcushareNodes = nil })
	shared("node-1", "true")
	s.reaches("share", "Running", "2/2")
	s.must(s.Delete(context.Background(), s.gr("share")))
	s.isGone(&appsv1.DaemonSet{}, "kube-system", "gcushare-device-plugin")
	shared("node-1", "true") // its pods still exist
	s.collect("gcushare-device-plugin")
	s.isGone(&topsv1.GcuResource{}, "", "share")
	for _, name := range []string{"node-1", "node-2"} {
		shared(name, "")
		if message := s.marked(name, false); message != "" {
			t.Errorf("%s: %s", name, message)
		}
	}
}
