package upgradeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestContractReading(t *testing.T) {
	d := newTestServer(t)
	t.Run("contract 65, 66 and 68: a list of no gr is a success with no items", func(t *testing.T) {
		got := d.succeeds(http.MethodGet, "/gum/v1/gr", "")
		shape := regexp.MustCompile(`^\{
    "operation": "List",
    "result": "Success",
    "content": \{
        "apiVersion": "topsops.enflame.com/v1",
        "items": \[\],
        "kind": "GcuResourceList",
        "metadata": \{
            "continue": "",
            "resourceVersion": "\d+"
        \}
    \}
\}
$`)
		if !shape.MatchString(got.body) {
			t.Errorf("got %s", got.body)
		}
	})
	gr := d.create("enflame-gcu-resource")
	d.create("other")
	d.daemonSet(gr, "enflame-gcu-driver", "driver")
	d.daemonSet(gr, "enflame-gcu-k8s-plugin", "devicePlugin")

	t.Run("contract 62, 65, 66 and 68: the list has all grs, with a slash at the end and without", func(t *testing.T) {
		for _, path := range []string{"/gum/v1/gr", "/gum/v1/gr/"} {
			got := d.succeeds(http.MethodGet, path, "")
			if want := "{\n    \"operation\": \"List\",\n    \"result\": \"Success\",\n    \"content\": {\n        \"apiVersion\": \"topsops.enflame.com/v1\",\n        \"items\": [\n            {\n" +
				"                \"apiVersion\": \"topsops.enflame.com/v1\",\n                \"kind\": \"GcuResource\",\n                \"metadata\": {\n" +
				"                    \"creationTimestamp\": "; !strings.HasPrefix(got.body, want) {
				t.Errorf("got %s", got.body)
			}
			if items, _ := got.object(t).Object["items"].([]any); got.Operation != OperationList || len(items) != 2 {
				t.Errorf("%s: got %s", path, got.body)
			}
		}
	})
	t.Run("contract 63, 65, 66 and 68: a gr is shown whole", func(t *testing.T) {
		for _, path := range []string{"/gum/v1/gr/enflame-gcu-resource", "/gum/v1/gr/enflame-gcu-resource/"} {
			got := d.succeeds(http.MethodGet, path, "")
			if want := "{\n    \"operation\": \"Get\",\n    \"result\": \"Success\",\n    \"content\": {\n        \"apiVersion\": \"topsops.enflame.com/v1\",\n" +
				"        \"kind\": \"GcuResource\",\n        \"metadata\": {\n            \"creationTimestamp\": "; !strings.HasPrefix(got.body, want) {
				t.Errorf("got %s", got.body)
			}
			if o := got.object(t); o.GetUID() != gr.UID || strings.Contains(got.body, "managedFields") || !strings.Contains(got.body, `"version": "1.0.0"`) {
				t.Errorf("%s: got %s", path, got.body)
			}
		}
	})
	t.Run("contract 63, 64, 66 and 68: a component is shown as its DaemonSet, plugin is devicePlugin", func(t *testing.T) {
		for kind, want := range map[string]string{"driver": "enflame-gcu-driver", "plugin": "enflame-gcu-k8s-plugin", "devicePlugin": "enflame-gcu-k8s-plugin"} {
			got := d.succeeds(http.MethodGet, "/gum/v1/gr/enflame-gcu-resource/resource/"+kind, "")
			o := got.object(t)
			if o.GetAPIVersion() != "apps/v1" || o.GetKind() != "DaemonSet" || o.GetName() != want || got.Operation != OperationGet {
				t.Errorf("%s: got %s", kind, got.body)
			}
		}
	})
	t.Run("contract 64: another kind is a failure", func(t *testing.T) {
		for _, kind := range []string{"nfd", "Driver", "x", "..", "%2e%2e%2fdriver"} {
			d.fails(http.MethodGet, "/gum/v1/gr/enflame-gcu-resource/resource/"+kind, "", http.StatusBadRequest, "is none of devicePlugin, driver, exporter, gfd, plugin, toolkit")
		}
	})
	t.Run("contract 64 and 67: a component that is not deployed is not found", func(t *testing.T) {
		d.fails(http.MethodGet, "/gum/v1/gr/enflame-gcu-resource/resource/gfd", "", http.StatusNotFound, `daemonsets.apps "gfd" not found`)
		d.fails(http.MethodGet, "/gum/v1/gr/other/resource/driver", "", http.StatusNotFound, `daemonsets.apps "driver" not found`)
	})
	t.Run("contract 65 and 67: a failure has the API server's plain message", func(t *testing.T) {
		got := d.fails(http.MethodGet, "/gum/v1/gr/absent", "", http.StatusNotFound, "")
		want := "{\n    \"operation\": \"Get\",\n    \"result\": \"Failed\",\n    \"error\": \"gcuresources.topsops.enflame.com \\\"absent\\\" not found\"\n}\n"
		if diff := cmp.Diff(want, got.body); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for _, path := range []string{"/absent/resource/driver", "/absent/rollout", "/absent/revisions/", "/Enflame", "/a%2Fb", "/..", "/%00"} {
			d.fails(http.MethodGet, "/gum/v1/gr"+path, "", http.StatusNotFound, `gcuresources.topsops.enflame.com "`)
		}
	})
	t.Run("contract 79: paths and methods there are none of fail in the envelope", func(t *testing.T) {
		for _, path := range []string{"/", "/gum/v1", "/gum/v1//gr", "/gum/v2/gr", "/gum/v1/gr/enflame-gcu-resource/resource"} {
			d.fails(http.MethodGet, path, "", http.StatusNotFound, "no such path")
		}
		for _, path := range []string{"/gum/v1/gr", "/gum/v1/gr/x", "/gum/v1/openapi.yaml"} {
			got := d.fails(http.MethodPatch, path, "", http.StatusMethodNotAllowed, "is not allowed here: use ")
			if !strings.Contains(got.header.Get("Allow"), http.MethodGet) {
				t.Errorf("Allow is %q", got.header.Get("Allow"))
			}
		}
	})
}

func TestRolloutAndRevisions(t *testing.T) {
	d := newTestServer(t)
	gr := d.create("watched")
	stranger := d.create("stranger")
	d.fails(http.MethodGet, "/gum/v1/gr/watched/rollout", "", http.StatusNotFound, `daemonrollouts.topsops.enflame.com "watched" not found`)
	rollout := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "watched"},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: "watched"}}}
	d.make(rollout)
	for _, updated := range []int32{3, 5} { // responses show the current state
		rollout.Status.Updated = updated
		d.must(d.admin.Status().Update(context.Background(), rollout))
		got := d.succeeds(http.MethodGet, "/gum/v1/gr/watched/rollout/", "")
		if !strings.Contains(got.body, fmt.Sprintf(`"updated": %d`, updated)) || got.object(t).GetKind() != "DaemonRollout" {
			t.Errorf("got %s", got.body)
		}
	}
	d.revision(gr, "watched-a", 2)
	d.revision(gr, "watched-b", 10)
	d.revision(gr, "watched-c", 9)
	foreign := &appsv1.ControllerRevision{ObjectMeta: ownedMeta(stranger, "foreign", ""), Revision: 99, Data: runtime.RawExtension{Raw: []byte("{}")}}
	foreign.Labels[topsv1.LabelGcuResource] = "watched"
	d.make(foreign)
	list, err := d.succeeds(http.MethodGet, "/gum/v1/gr/watched/revisions", "").object(t).ToList()
	d.must(err)
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	if diff := cmp.Diff([]string{"watched-b", "watched-c", "watched-a"}, names); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

// A DaemonSet in the operator's namespace may have the name of a gr, and then its rollout has too.
func TestTheRolloutOfAnotherGroupIsNotShown(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := topsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for kind, status := range map[string]int{topsv1.GcuResourceKind: http.StatusOK, "DaemonSet": http.StatusNotFound} {
		rollout := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gr"}, Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: kind, Name: "gr"}}}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(rollout, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr"}}).Build()
		w, _ := answerOf(&fakeCluster{}, httptest.NewRequest(http.MethodGet, "/gum/v1/gr/gr/rollout", nil), func(o *Options) { o.Client = c })
		if w.Code != status || status == http.StatusNotFound && envelopeIn(t, w).Error != `daemonrollouts.topsops.enflame.com "gr" not found` {
			t.Errorf("of a %s: %d %s, want %d", kind, w.Code, w.Body, status)
		}
	}
}
