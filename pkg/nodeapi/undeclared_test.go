package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// crd is the CRD of NodeUpgrades on an API server.
type crd struct {
	t     *testing.T
	admin client.Client
}

// change changes the schema of the status.
func (c crd) change(do func(status map[string]any)) {
	c.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := c.admin.Get(c.t.Context(), client.ObjectKey{Name: "nodeupgrades." + topsv1.GroupVersion.Group}, object); err != nil {
		c.t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions")
	do(at(versions[0], "schema", "openAPIV3Schema", "properties", "status", "properties"))
	if err := unstructured.SetNestedSlice(object.Object, versions, "spec", "versions"); err != nil {
		c.t.Fatal(err)
	}
	if err := c.admin.Update(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
}

// at returns a map in maps.
func at(value any, path ...string) map[string]any {
	fields, _ := value.(map[string]any)
	for _, name := range path {
		fields, _ = fields[name].(map[string]any)
	}
	return fields
}

// TestAnAgentNewerThanTheCRDReports: helm rollback puts the CRDs back at once, and the agents one after another.
func TestAnAgentNewerThanTheCRDReports(t *testing.T) {
	server := apiserver.Shared(t)
	admin := server.Client(t, apiserver.Admin)
	upgrade := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "older"}}
	if err := admin.Create(t.Context(), upgrade); err != nil {
		t.Fatal(err)
	}
	var logged atomic.Int64
	clock := clocktesting.NewFakePassiveClock(time.Now())
	agent, err := New(server.As(apiserver.NodeAgent), "test", clock, funcr.New(func(_, line string) { t.Log(line); logged.Add(1) }, funcr.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	since := metav1.NewTime(time.Now().Truncate(time.Second))
	report := func(message string) *topsv1.NodeUpgrade {
		return &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: upgrade.Name, UID: upgrade.UID}, Status: topsv1.NodeUpgradeStatus{Host: &topsv1.HostReport{
			Time: since, MoreDeviceHolders: 3, Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: "enflame", DefaultSince: &since},
			Results: []topsv1.HostTaskResult{{Operation: "op", Task: "a.b_node_prepull", Attempt: 1, State: topsv1.HostTaskDone, Reason: "Pulled", Message: message}},
		}}}
	}
	apply := func(message string) *topsv1.HostReport {
		t.Helper()
		if err := agent.ApplyStatus(t.Context(), "agent", report(message)); err != nil {
			t.Fatal(err)
		}
		stored := &topsv1.NodeUpgrade{}
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(upgrade), stored); err != nil {
			t.Fatal(err)
		}
		return stored.Status.Host
	}
	whole := report("one").Status.Host
	if diff := cmp.Diff(whole, apply("one")); diff != "" {
		t.Fatalf("with the CRD of this version: %s", diff)
	}

	var holders, begun, reason any
	crd{t, admin}.change(func(status map[string]any) {
		host := at(status["host"], "properties")
		engine, result := at(host["runtime"], "properties"), at(host["results"], "items", "properties")
		holders, begun, reason = host["moreDeviceHolders"], engine["defaultSince"], result["reason"]
		delete(host, "moreDeviceHolders")
		delete(engine, "defaultSince")
		delete(result, "reason")
	})
	awaitRefusal(t, agent, report("one"))
	want := report("two").Status.Host
	want.MoreDeviceHolders, want.Runtime.DefaultSince, want.Results[0].Reason = 0, nil, ""
	if diff := cmp.Diff(want, apply("two")); diff != "" {
		t.Fatalf("with an older CRD: %s", diff)
	}
	before := logged.Load()
	if before == 0 {
		t.Error("nothing is logged")
	}
	want.Results[0].Message = "three"
	if diff := cmp.Diff(want, apply("three")); diff != "" || logged.Load() != before {
		t.Errorf("again, %d lines logged: %s", logged.Load()-before, diff)
	}

	crd{t, admin}.change(func(status map[string]any) {
		host := at(status["host"], "properties")
		host["moreDeviceHolders"], at(host["runtime"], "properties")["defaultSince"], at(host["results"], "items", "properties")["reason"] = holders, begun, reason
	})
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		clock.SetTime(clock.Now().Add(rememberedFor))
		return cmp.Diff(report("four").Status.Host, apply("four")) == "", nil
	}); err != nil {
		t.Error("the CRD has the fields again, and they are left out")
	}
}

// awaitRefusal waits until the API server has the older CRD.
func awaitRefusal(t *testing.T, agent *Server, of *topsv1.NodeUpgrade) {
	t.Helper()
	configuration := map[string]any{"apiVersion": topsv1.GroupVersion.String(), "kind": "NodeUpgrade", "metadata": map[string]any{"name": of.Name}, "status": of.Status}
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := agent.apply(ctx, "agent", of.Name, configuration)
		if err != nil {
			t.Log(err)
		}
		return err != nil && strings.Contains(err.Error(), "field not declared in schema"), nil
	}); err != nil {
		t.Fatalf("the older CRD is not in force: %v", err)
	}
}

func TestUndeclaredFieldsAreFoundInARefusal(t *testing.T) {
	const head = "failed to create typed patch object (/n1; topsops.enflame.com/v1, Kind=NodeUpgrade): "
	for _, tt := range []struct {
		says string
		want []string
	}{
		{head + `.status.host.runtime.defaultSince: field not declared in schema`, []string{".status.host.runtime.defaultSince"}},
		{head + "errors:\n  .status.pulls[image=\"a]\\\" .b\",node=1].node: field not declared in schema\n  .status.x: field not declared in schema",
			[]string{".status.pulls[].node", ".status.x"}},
		{head + "errors:\n  .status.a: expected map, got &{[]}\n  .status.list[0][=\"v\"].x: field not declared in schema", []string{".status.list[][].x"}},
		{head + `.status.a: expected map, got &{[]}`, nil},
		{"", nil},
	} {
		if diff := cmp.Diff(tt.want, undeclaredIn(errors.New(tt.says))); diff != "" {
			t.Errorf("%s: %s", tt.says, diff)
		}
	}
}

func TestOnlyTheNamedFieldIsLeftOut(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{".status.a", "map[status:map[a.b:map[c:1] list:[map[x:1 y:2] map[y:3]]]]"},
		{".status.a.b.c", "map[status:map[a:map[b:map[d:1]] a.b:map[] list:[map[x:1 y:2] map[y:3]]]]"},
		{".status.a.b.d", "map[status:map[a:map[b:map[]] a.b:map[c:1] list:[map[x:1 y:2] map[y:3]]]]"},
		{".status.list[].y", "map[status:map[a:map[b:map[d:1]] a.b:map[c:1] list:[map[x:1] map[]]]]"},
		{".status.gone", "map[status:map[a:map[b:map[d:1]] a.b:map[c:1] list:[map[x:1 y:2] map[y:3]]]]"},
	} {
		value := map[string]any{"status": map[string]any{
			"a": map[string]any{"b": map[string]any{"d": 1}}, "a.b": map[string]any{"c": 1},
			"list": []any{map[string]any{"x": 1, "y": 2}, map[string]any{"y": 3}},
		}}
		had := without(value, tt.path)
		if got := fmt.Sprint(value); got != tt.want || had == strings.HasSuffix(tt.path, "gone") {
			t.Errorf("%s: %s, %t", tt.path, got, had)
		}
	}
}

func TestUndeclaredFieldsAreForgottenInTime(t *testing.T) {
	var u undeclared
	start := time.Now()
	u.add(start, []string{".b", ".a"})
	u.add(start.Add(rememberedFor-time.Second), []string{".b"})
	for _, tt := range []struct {
		after time.Duration
		want  []string
	}{{rememberedFor - time.Second, []string{".a", ".b"}}, {rememberedFor, nil}} {
		if diff := cmp.Diff(tt.want, u.at(start.Add(tt.after))); diff != "" {
			t.Errorf("after %s: %s", tt.after, diff)
		}
	}
}
