package upgradeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestContractUpgradeInPlace(t *testing.T) {
	d := newTestServer(t)
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
		d.fails(http.MethodPut, path, `{"file": "pod.json"}`, http.StatusBadRequest, `it must be a GcuResource of topsops.enflame.com/v1`)
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
	d := newTestServer(t)
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
	for _, query := range []string{"?dryRun=maybe", "?dryrun=true", "?dryRun", "?dryRun=true&dryRun=false", "?dryRun=true;", "?x=1;dryRun=true", "?dryRun=true%", "?dryRun=true&%zz"} {
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

func TestABlueprintOfKubectlIsNoOtherGr(t *testing.T) {
	d := newTestServer(t)
	d.create("exported")
	d.file("exported.json", `{"apiVersion": "topsops.enflame.com/v1", "kind": "GcuResource", "spec": {"driver": {"version": "2"}}, "status": {"phase": "Running"},
		"metadata": {"name": "exported", "uid": "1", "resourceVersion": "1", "generation": 7, "creationTimestamp": "2022-10-19T08:28:29Z", "finalizers": ["a/b"],
		"labels": {"site": "b"}, "annotations": {"topsops.enflame.com/rollback-to": "x", "topsops.enflame.com/max-unavailable": "3", "note": "y"}}}`)
	d.succeeds(http.MethodPut, "/gum/v1/gr/exported", `{"file": "exported.json"}`)
	now := d.gr("exported")
	want := map[string]string{topsv1.AnnotationMaxUnavailable: "3", topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}
	if now.Finalizers[0] != topsv1.Finalizer || now.Labels != nil || fmt.Sprint(now.Annotations) != fmt.Sprint(want) {
		t.Errorf("in place: %+v", now.ObjectMeta)
	}
	got := d.succeeds(http.MethodPut, "/gum/v1/gr/exported?dryRun=true", `{"file": "exported.json", "mode": "recreate"}`).object(t)
	if got.GetUID() != "" || got.GetFinalizers() != nil || got.GetLabels()["site"] != "b" || got.GetAnnotations()["note"] != "y" || got.GetAnnotations()[topsv1.AnnotationRollbackTo] != "" {
		t.Errorf("recreated: %+v", got)
	}
}

func TestAnUpgradeReplacesTheLimit(t *testing.T) {
	d := newTestServer(t, planning(t))
	d.create("limited", strategy("OTA"))
	d.file("next.json", blueprint("limited", "2.0.0"))
	d.file("own.json", strings.Replace(blueprint("limited", "3.0.0"), `{"name": "limited"}`,
		`{"name": "limited", "annotations": {"topsops.enflame.com/upgrade-only": "components=driver"}}`, 1))
	d.file("bad.json", strings.Replace(blueprint("limited", "3.0.0"), `{"name": "limited"}`,
		`{"name": "limited", "annotations": {"topsops.enflame.com/upgrade-only": "racks=1"}}`, 1))
	d.node("rack-2")
	const path = "/gum/v1/gr/limited"
	for _, tt := range []struct{ name, body, only, version string }{
		{"by the request", `{"file": "next.json", "nodes": ["rack-2", "rack-2"]}`, "nodes=rack-2", "2.0.0"},
		{"to something else, without another spec", `{"components": ["driver"]}`, "components=driver", "2.0.0"},
		{"to nothing, without another spec", `{"all": true}`, "", "2.0.0"},
		{"by the blueprint", `{"file": "own.json"}`, "components=driver", "3.0.0"},
		{"to nothing, by a blueprint that says nothing", `{"file": "next.json"}`, "", "2.0.0"},
		{"by the request rather than the blueprint", `{"file": "own.json", "nodes": ["rack-2"], "components": ["driver"]}`, "nodes=rack-2;components=driver", "3.0.0"},
		{"to nothing rather than by the blueprint", `{"file": "own.json", "all": true}`, "", "3.0.0"},
		{"by a request with a spec", `{"spec": {"driver": {"version": "4.0.0"}}, "nodes": ["rack-2"]}`, "nodes=rack-2", "4.0.0"},
	} {
		d.succeeds(http.MethodPut, path, tt.body)
		gr := d.gr("limited")
		if got := gr.Annotations[topsv1.AnnotationUpgradeOnly]; got != tt.only || gr.Spec.Driver.Version != tt.version || gr.Annotations[topsv1.AnnotationUpdateStrategy] != "OTA" {
			t.Errorf("%s: limited to %q, version %s, annotations %v; want %q and %s", tt.name, got, gr.Spec.Driver.Version, gr.Annotations, tt.only, tt.version)
		}
	}
	before := d.gr("limited").ResourceVersion
	for body, says := range map[string]string{
		`{}`:                                 "must have either a blueprint",
		`{"nodes": []}`:                      "empty list",
		`{"components": []}`:                 "empty list",
		`{"nodes": ["rack-9"]}`:              "there is no node rack-9",
		`{"nodes": ["a;components=b"]}`:      "is not the name of a node",
		`{"components": ["gfd"]}`:            `no component "gfd"`,
		`{"file": "bad.json"}`:               "upgrade-only",
		`{"all": true, "nodes": ["rack-2"]}`: "exclude each other",
		`{"file": "next.json", "mode": "recreate", "nodes": ["rack-2"]}`: "cannot be limited",
		`{"nodes": "rack-2"}`: "has to be JSON",
	} {
		d.fails(http.MethodPut, path, body, http.StatusBadRequest, says)
	}
	if got := d.send(http.MethodPut, path+"?dryRun=true", `{"all": true}`); got.status != http.StatusOK || got.object(t).GetAnnotations()[topsv1.AnnotationUpgradeOnly] != "" {
		t.Errorf("a dry run: %s", got.body)
	}
	if after := d.gr("limited").ResourceVersion; after != before {
		t.Error("a refused request or a dry run changed the gr")
	}
	if log := d.logged(); !strings.Contains(log, "rack-2") {
		t.Errorf("the log does not say to what:\n%s", log)
	}
}

// What is recreated is replaced everywhere at once, and a rollback that is requested would be lost.
func TestARecreationIsNeitherLimitedNorReplacesARollback(t *testing.T) {
	blueprints := t.TempDir()
	limited := strings.Replace(blueprint("gr", "2"), `{"name": "gr"}`, `{"name": "gr", "annotations": {"topsops.enflame.com/upgrade-only": "nodes=a"}}`, 1)
	for name, content := range map[string]string{"limited.json": limited, "plain.json": blueprint("gr", "2")} {
		if err := os.WriteFile(filepath.Join(blueprints, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, file string
		has        map[string]string
		status     int
		says       string
	}{
		{"a blueprint with a limit", "limited.json", nil, http.StatusBadRequest, "cannot be limited"},
		{"while a rollback is requested", "plain.json", map[string]string{topsv1.AnnotationRollbackTo: "previous"}, http.StatusConflict, "a rollback of gr to"},
		{"neither", "plain.json", map[string]string{topsv1.AnnotationUpgradeOnly: "nodes=a"}, http.StatusOK, "Success"},
	} {
		s := &fakeCluster{annotations: tt.has}
		body := strings.NewReader(fmt.Sprintf(`{"file": %q, "mode": "recreate"}`, tt.file))
		w, _ := answerOf(s, httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr", body), func(o *Options) { o.Blueprints = blueprints })
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) || (s.stored > 0) != (tt.status == http.StatusOK) {
			t.Errorf("%s: %d %s, %d writes; want %d, %q", tt.name, w.Code, w.Body, s.stored, tt.status, tt.says)
		}
	}
}

// With invalid settings nothing of the gr is upgraded. A fault that it had before is left to whoever mends it.
func TestABlueprintWithInvalidSettingsIsRefused(t *testing.T) {
	blueprints := t.TempDir()
	for _, tt := range []struct {
		name        string
		has, brings map[string]string
		says        string
	}{
		{"max-unavailable", nil, map[string]string{topsv1.AnnotationMaxUnavailable: "0"}, `max-unavailable is \"0\"`},
		{"strategy", nil, map[string]string{topsv1.AnnotationUpdateStrategy: "Rolling"}, `update-strategy is \"Rolling\"`},
		{"OpenYurt's strategy", nil, map[string]string{topsv1.OpenYurtAnnotationUpdateStrategy: "Rolling"}, `update-strategy is \"Rolling\"`},
		{"another fault than before", map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationPaused: "maybe"}, map[string]string{topsv1.AnnotationMaxUnavailable: "0"},
			`max-unavailable is \"0\"`},
		{"a fault that is there", map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationPaused: "maybe"}, map[string]string{topsv1.AnnotationMaxUnavailable: "1"}, ""},
		{"one that is mended", map[string]string{topsv1.AnnotationUpdateStrategy: "Rolling"}, map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}, ""},
	} {
		content, err := json.Marshal(map[string]any{"apiVersion": topsv1.GroupVersion.String(), "kind": topsv1.GcuResourceKind,
			"metadata": map[string]any{"name": "gr", "annotations": tt.brings}, "spec": map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(blueprints, "gr.json"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := &fakeCluster{annotations: tt.has}
		w, _ := answerOf(s, httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr", strings.NewReader(`{"file": "gr.json"}`)), func(o *Options) { o.Blueprints = blueprints })
		want := http.StatusBadRequest
		if tt.says == "" {
			want = http.StatusOK
		}
		if w.Code != want || !strings.Contains(w.Body.String(), tt.says) || (s.stored > 0) != (want == http.StatusOK) {
			t.Errorf("%s: %d %s, %d writes; want %d, %q", tt.name, w.Code, w.Body, s.stored, want, tt.says)
		}
	}
}
