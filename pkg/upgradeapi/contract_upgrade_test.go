package upgradeapi

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/recreation"
)

// leader is what finishes the upgrades that a desk accepted.
func (d *desk) leader(clk clock.PassiveClock) *Recreator {
	return &Recreator{Client: d.api.Client, Namespace: namespace, Log: d.api.Log, Clock: clk}
}

// pass makes the leader look at a gr once; it returns when it looks again.
func (d *desk) pass(r *Recreator, name string) time.Duration {
	d.t.Helper()
	result, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: recreation.Name(name)}})
	d.must(err)
	return result.RequeueAfter
}

// accepted returns whether an upgrade of a gr is stored.
func (d *desk) accepted(name string) bool {
	d.t.Helper()
	err := d.admin.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: recreation.Name(name)}, &corev1.ConfigMap{})
	d.must(client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

// plainSuccess is the whole answer of an upgrade or a deletion.
func plainSuccess(operation string) string {
	return fmt.Sprintf("{\n    \"operation\": %q,\n    \"result\": \"Success\"\n}\n", operation)
}

func TestContractUpgradeInPlace(t *testing.T) {
	d := newDesk(t)
	path := "/gum/v1/gr/enflame-gcu-resource"
	gr := d.create("enflame-gcu-resource", func(gr *topsv1.GcuResource) {
		gr.Labels = map[string]string{"site": "a"}
		gr.Spec.Exporter = &topsv1.BaseFields{Version: "9"}
	})
	d.file("gr.json", blueprint("enflame-gcu-resource", "1.1.0"))
	asYAML, err := yaml.JSONToYAML([]byte(blueprint("enflame-gcu-resource", "1.2.0")))
	d.must(err)
	d.file("gr.yaml", string(asYAML))

	t.Run("contract 66, 67, 69 and 70: a blueprint is named in JSON, whatever the content type", func(t *testing.T) {
		got := d.succeeds(http.MethodPut, path, `{"file": "gr.json"}`)
		if got.body != plainSuccess(OperationUpgrade) {
			t.Errorf("got %s", got.body)
		}
		if now := d.gr(gr.Name); now.Spec.Driver.Version != "1.1.0" {
			t.Errorf("the driver is %s", now.Spec.Driver.Version)
		}
	})
	t.Run("contract 74: one component is upgraded in place, and the fleet is rolled", func(t *testing.T) {
		now := d.gr(gr.Name)
		if now.UID != gr.UID || now.DeletionTimestamp != nil || now.Labels["site"] != "a" {
			t.Errorf("it is another one: %+v", now.ObjectMeta)
		}
		if got := now.Annotations[topsv1.AnnotationUpdateStrategy]; got != "AdvancedRollingUpdate" {
			t.Errorf("its strategy is %q", got)
		}
	})
	t.Run("contract 75: what a blueprint drops is dropped", func(t *testing.T) {
		if now := d.gr(gr.Name); now.Spec.Exporter != nil {
			t.Errorf("the exporter is still there: %+v", now.Spec.Exporter)
		}
	})
	t.Run("contract 69: a blueprint may be YAML, and is sent to either path", func(t *testing.T) {
		d.succeeds(http.MethodPut, path+"/", `{"file": "gr.yaml"}`)
		if now := d.gr(gr.Name); now.Spec.Driver.Version != "1.2.0" {
			t.Errorf("the driver is %s", now.Spec.Driver.Version)
		}
	})
	t.Run("contract 69: file is required, and nothing else is understood", func(t *testing.T) {
		for _, body := range []string{"", "{}", `{"file": ""}`, `{"file": "gr.json", "spec": {}}`, `{"File": "gr.json"}`, `{"file": 1}`, `["gr.json"]`, "file=gr.json",
			`{"file": "gr.json", "file": "gr.yaml"}`, `{"file": "gr.json", "mode": "Recreate"}`, `{"file": "gr.json", "dryRun": true}`, `{"spec": {"drivers": {}}}`} {
			d.fails(http.MethodPut, path, body, http.StatusBadRequest, "")
		}
	})
	t.Run("contract 72: the name of the gr cannot be changed, nor its kind", func(t *testing.T) {
		d.file("renamed.json", blueprint("another", "1"))
		d.fails(http.MethodPut, path, `{"file": "renamed.json"}`, http.StatusBadRequest, `a GcuResource cannot be renamed`)
		d.fails(http.MethodPut, path, `{"file": "renamed.json", "mode": "recreate"}`, http.StatusBadRequest, `a GcuResource cannot be renamed`)
		d.file("pod.json", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "enflame-gcu-resource"}}`)
		d.fails(http.MethodPut, path, `{"file": "pod.json"}`, http.StatusBadRequest, `it has to be a GcuResource of topsops.enflame.com/v1`)
	})
	t.Run("contract 79: what is absent or refused by the API server has a status of its own", func(t *testing.T) {
		d.fails(http.MethodPut, path, `{"file": "absent.json"}`, http.StatusNotFound, `blueprint "absent.json" not found`)
		d.file("nobody.json", blueprint("nobody", "1"))
		d.fails(http.MethodPut, "/gum/v1/gr/nobody", `{"file": "nobody.json"}`, http.StatusNotFound, `gcuresources.topsops.enflame.com "nobody" not found`)
		both := `{"spec": {"devicePlugin": {}, "gcusharePlugin": {}}}`
		d.fails(http.MethodPut, path, both, http.StatusUnprocessableEntity, "cannot be deployed together")
		d.fails(http.MethodPut, path, strings.Replace(both, "}}}", `}}, "mode": "recreate"}`, 1), http.StatusUnprocessableEntity, "cannot be deployed together")
	})
	if now := d.gr(gr.Name); now.Spec.Driver.Version != "1.2.0" || d.accepted(gr.Name) {
		t.Errorf("what failed changed something: %+v", now.Spec)
	}
}

func TestUpgradeWithASpecAndDryRun(t *testing.T) {
	d := newDesk(t)
	gr := d.create("inline", func(gr *topsv1.GcuResource) {
		gr.Annotations = map[string]string{topsv1.OpenYurtAnnotationUpdateStrategy: "ota", "mine": "x"}
	})
	path := "/gum/v1/gr/inline"
	for _, mode := range []string{"inPlace", "recreate"} {
		got := d.succeeds(http.MethodPut, path+"?dryRun=true", fmt.Sprintf(`{"spec": {"driver": {"version": "2"}}, "mode": %q}`, mode))
		o := got.object(t)
		if o.GetName() != "inline" || o.GetAnnotations()["mine"] != "x" || !strings.Contains(got.body, `"version": "2"`) || !strings.Contains(got.body, `"imagePullPolicy": "IfNotPresent"`) {
			t.Errorf("%s: got %s", mode, got.body)
		}
		if now := d.gr("inline"); now.ResourceVersion != gr.ResourceVersion || d.accepted("inline") {
			t.Errorf("%s: a dry run changed something", mode)
		}
	}
	for _, query := range []string{"?dryRun=maybe", "?dryrun=true", "?dryRun", "?dryRun=true&dryRun=false"} {
		d.fails(http.MethodPut, path+query, `{"spec": {}}`, http.StatusBadRequest, "dryRun")
		d.fails(http.MethodDelete, path+query, "", http.StatusBadRequest, "dryRun")
	}
	d.succeeds(http.MethodDelete, path+"?dryRun=true", `{"policy": "foreground"}`)
	if now := d.gr("inline"); now.DeletionTimestamp != nil {
		t.Error("a dry run deleted it")
	}
	d.succeeds(http.MethodPut, path+"?dryRun=false", `{"spec": {"driver": {"version": "3"}}}`)
	now := d.gr("inline")
	if _, given := now.Annotations[topsv1.AnnotationUpdateStrategy]; now.Spec.Driver.Version != "3" || given || now.Annotations["mine"] != "x" {
		t.Errorf("got %+v", now)
	}
}

func TestContractUpgradeByRecreation(t *testing.T) {
	d := newDesk(t)
	const name = "enflame-gcu-resource"
	path := "/gum/v1/gr/" + name
	old := d.create(name, func(gr *topsv1.GcuResource) { gr.Spec.Exporter = &topsv1.BaseFields{} })
	old.Spec.Driver.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	d.must(d.admin.Update(context.Background(), old))
	d.file("gr.json", blueprint(name, "2.0.0"))
	leader := d.leader(clock.RealClock{})

	t.Run("contract 72 and 73: the answer comes when the deletion is accepted", func(t *testing.T) {
		got := d.succeeds(http.MethodPut, path, `{"file": "gr.json", "mode": "recreate"}`)
		if now := d.gr(name); got.body != plainSuccess(OperationUpgrade) || now.UID != old.UID || now.DeletionTimestamp == nil {
			t.Errorf("got %s, and the old gr is %+v", got.body, now.ObjectMeta)
		}
	})
	t.Run("contract 79: nothing else is done with the gr meanwhile", func(t *testing.T) {
		for _, body := range []string{`{"file": "gr.json"}`, `{"file": "gr.json", "mode": "recreate"}`} {
			d.fails(http.MethodPut, path, body, http.StatusConflict, "an upgrade of enflame-gcu-resource is under way")
		}
		d.fails(http.MethodDelete, path, "", http.StatusConflict, "under way")
		for _, verb := range []string{"pause", "resume", "rollback"} {
			d.fails(http.MethodPost, path+"/"+verb, "", http.StatusConflict, "under way")
		}
	})
	t.Run("contract 73: the old gr is looked at every 3 s, the new one every 5 s", func(t *testing.T) {
		for range 2 {
			if again := d.pass(leader, name); again != 3*time.Second || d.gr(name).UID != old.UID {
				t.Errorf("looks again after %s", again)
			}
		}
		d.letGo(name)
		for range 3 {
			if again := d.pass(leader, name); again != 5*time.Second || d.gr(name).UID == old.UID {
				t.Errorf("looks again after %s", again)
			}
		}
	})
	t.Run("contract 75 and 76: the new gr is another object, with what the blueprint lists only", func(t *testing.T) {
		now := d.gr(name)
		if now.Generation != 1 || now.Spec.Driver.Version != "2.0.0" || now.Spec.Exporter != nil || now.Spec.Driver.Env != nil {
			t.Errorf("got %+v", now)
		}
	})
	t.Run("contract 76: when it runs, its action is deploy, observedGeneration 1, and the upgrade is over", func(t *testing.T) {
		d.runs(name)
		if again := d.pass(leader, name); again != 0 || d.accepted(name) {
			t.Errorf("looks again after %s, stored: %t", again, d.accepted(name))
		}
		if now := d.gr(name); now.Status.ObservedGeneration != 1 || now.Status.Conditions[0].Action != "deploy" {
			t.Errorf("got %+v", now.Status)
		}
	})
	t.Run("contract 73 and 78: each look is logged", func(t *testing.T) {
		var got []string
		for _, m := range regexp.MustCompile(`(?m) INFO upgradeapi/(?:upgrade|cluster|recreator)\.go:\d+ ([A-Z][^(]*) gcuResource\(.*?(retry=\d+)?(?: phase=""| message=""|$)`).FindAllStringSubmatch(d.logged(), -1) {
			got = append(got, strings.TrimSpace(m[1]+" "+m[2]))
		}
		want := []string{
			"Storing the new GcuResource, the old one is deleted next", "Deleting GcuResource",
			"Waiting until the old GcuResource is gone retry=0", "Waiting until the old GcuResource is gone retry=1",
			"The old GcuResource is gone, creating the new one retry=2",
			"Waiting until the new GcuResource is Running retry=0", "Waiting until the new GcuResource is Running retry=1", "The new GcuResource is Running retry=2",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s\n%s", diff, d.logged())
		}
	})
}

func TestAnUpgradeThatIsWatchedGivesWay(t *testing.T) {
	d := newDesk(t)
	leader := d.leader(clock.RealClock{})
	d.create("again")
	recreate := func(version string) {
		t.Helper()
		d.succeeds(http.MethodPut, "/gum/v1/gr/again", fmt.Sprintf(`{"spec": {"driver": {"version": %q}}, "mode": "recreate"}`, version))
		d.letGo("again")
		d.pass(leader, "again")
		if now := d.gr("again"); now.Spec.Driver.Version != version {
			t.Fatalf("version %s: got %+v", version, now.Spec.Driver)
		}
	}
	recreate("2")
	recreate("3") // though 2 never ran
	d.succeeds(http.MethodPut, "/gum/v1/gr/again", `{"spec": {"driver": {"version": "4"}}}`)
	d.succeeds(http.MethodDelete, "/gum/v1/gr/again", "")
	if again := d.pass(leader, "again"); again != 0 || d.accepted("again") || d.gr("again") != nil {
		t.Errorf("a gr that was deleted is still upgraded: %+v", d.gr("again"))
	}
}

func TestAGrOfSomebodyElseIsLeftAlone(t *testing.T) {
	d := newDesk(t)
	d.create("taken")
	d.succeeds(http.MethodPut, "/gum/v1/gr/taken", `{"spec": {"driver": {"version": "2"}}, "mode": "recreate"}`)
	d.letGo("taken")
	foreign := d.create("taken")
	if again := d.pass(d.leader(clock.RealClock{}), "taken"); again != 0 || d.accepted("taken") {
		t.Error("it goes on")
	}
	if now := d.gr("taken"); now.UID != foreign.UID || now.Spec.Driver.Version != "1.0.0" || now.DeletionTimestamp != nil {
		t.Errorf("got %+v", now)
	}
	if !strings.Contains(d.logged(), " ERROR ") {
		t.Errorf("nobody is told: %s", d.logged())
	}
}

func TestContractLog(t *testing.T) {
	d := newDesk(t)
	d.create("told")
	d.file("gr.json", blueprint("told", "2"))
	t.Run("contract 78: each request is one line with its body, and has an id", func(t *testing.T) {
		got := d.send(http.MethodPut, "/gum/v1/gr/told", `{"file": "gr.json"}`, "X-Request-Id", "ticket-17", "User-Agent", "curl/7.47.0")
		if got.header.Get("X-Request-Id") != "ticket-17" {
			t.Errorf("the id is %q", got.header.Get("X-Request-Id"))
		}
		line := regexp.MustCompile(`(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d INFO upgradeapi/serve\.go:\d+ Answering request requestID=ticket-17 operation=Upgrade method=PUT path=/gum/v1/gr/told ` +
			`body="\{\\"file\\": \\"gr\.json\\"\}" user="" remote=127\.0\.0\.1 userAgent=curl/7\.47\.0 status=200 duration=\S+$`)
		if n := len(line.FindAllString(d.logged(), -1)); n != 1 {
			t.Errorf("%d lines like the one wanted:\n%s", n, d.logged())
		}
	})
	t.Run("contract 78: what was done is told with the id too", func(t *testing.T) {
		if want := "Replacing the spec of GcuResource gcuResource(name:told, uuid:\"\") requestID=ticket-17"; !strings.Contains(d.logged(), want) {
			t.Errorf("no %q:\n%s", want, d.logged())
		}
	})
	t.Run("a failure is told, an id that is none is replaced, a secret is not written", func(t *testing.T) {
		got := d.send(http.MethodPut, "/gum/v1/gr/absent", `{"spec": {"driver": {"env": [{"name": "A", "value": "hunter2"}]}}}`, "X-Request-Id", "a b")
		if id := got.header.Get("X-Request-Id"); id == "a b" || !requestID.MatchString(id) || !strings.Contains(d.logged(), "requestID="+id) {
			t.Errorf("the id is %q", id)
		}
		if text := d.logged(); strings.Contains(text, "hunter2") || !strings.Contains(text, `body="{\"spec\":\"…\"}"`) || !strings.Contains(text, `failure="gcuresources.topsops.enflame.com \"absent\" not found"`) {
			t.Errorf("got %s", text)
		}
	})
}

func TestPauseResumeRollback(t *testing.T) {
	d := newDesk(t)
	gr := d.create("steered")
	path := "/gum/v1/gr/steered"
	annotation := func(key string) string { return d.gr("steered").Annotations[key] }

	d.succeeds(http.MethodPost, path+"/pause?dryRun=true", "")
	if annotation(topsv1.AnnotationPaused) != "" {
		t.Error("a dry run paused it")
	}
	if got := d.succeeds(http.MethodPost, path+"/pause", ""); got.body != plainSuccess(OperationPause) || annotation(topsv1.AnnotationPaused) != "true" {
		t.Errorf("got %s, annotations %v", got.body, d.gr("steered").Annotations)
	}
	d.succeeds(http.MethodPost, path+"/resume/", "")
	if _, paused := d.gr("steered").Annotations[topsv1.AnnotationPaused]; paused {
		t.Error("still paused")
	}
	rollout := &topsv1.DaemonRollout{}
	rollout.Namespace, rollout.Name = namespace, "steered"
	rollout.Spec.TargetRef = topsv1.TargetRef{Kind: "GcuResource", Name: "steered"}
	d.make(rollout)
	resumed := func() string {
		t.Helper()
		d.must(d.admin.Get(context.Background(), client.ObjectKeyFromObject(rollout), rollout))
		return rollout.Annotations[topsv1.AnnotationResume]
	}
	d.succeeds(http.MethodPost, path+"/resume", "")
	if got := resumed(); got != "" {
		t.Errorf("failures of a rollout that is not halted are forgiven: %s", got)
	}
	d.halt(rollout)
	d.succeeds(http.MethodPost, path+"/resume", "")
	if _, err := time.Parse(time.RFC3339, resumed()); err != nil {
		t.Error(err)
	}

	d.fails(http.MethodPost, path+"/rollback", "", http.StatusConflict, "no spec of steered before the present one is kept")
	d.revision(gr, "steered-a", 1)
	d.revision(gr, "steered-b", 2)
	d.fails(http.MethodPost, path+"/rollback", `{"to": "steered-c"}`, http.StatusNotFound, `revision "steered-c" of steered not found`)
	d.fails(http.MethodPost, path+"/rollback", `{"to": ""}`, http.StatusBadRequest, "to is empty")
	d.fails(http.MethodPost, path+"/rollback", `{"revision": "steered-a"}`, http.StatusBadRequest, "unknown field")
	if got := annotation(topsv1.AnnotationRollbackTo); got != "" {
		t.Errorf("what failed asks for a rollback to %q", got)
	}
	for body, want := range map[string]string{"": "previous", `{"to": "steered-a"}`: "steered-a"} {
		if got := d.succeeds(http.MethodPost, path+"/rollback", body); got.body != plainSuccess(OperationRollback) || annotation(topsv1.AnnotationRollbackTo) != want {
			t.Errorf("%s: got %s, asked for %q", body, got.body, annotation(topsv1.AnnotationRollbackTo))
		}
	}
	for _, verb := range []string{"pause", "resume", "rollback"} {
		d.fails(http.MethodPost, "/gum/v1/gr/absent/"+verb, "", http.StatusNotFound, `gcuresources.topsops.enflame.com "absent" not found`)
		d.fails(http.MethodGet, path+"/"+verb, "", http.StatusMethodNotAllowed, "use POST")
		d.fails(http.MethodPost, path+"/"+verb, `{"x": 1}`, http.StatusBadRequest, "")
	}
}

func TestTheExamplesAreBlueprints(t *testing.T) {
	d := newDesk(t)
	d.create("enflame-gcu-resource")
	for _, name := range []string{"gcu-resource.json", "gcu-resource.yaml", "gcu-resource-driver.json"} {
		raw, err := os.ReadFile("../../examples/" + name)
		d.must(err)
		d.file(name, string(raw))
		d.succeeds(http.MethodPut, "/gum/v1/gr/enflame-gcu-resource", fmt.Sprintf(`{"file": %q}`, name))
	}
}
