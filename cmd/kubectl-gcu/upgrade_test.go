package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

func TestUpgrade(t *testing.T) {
	s := newSite(t)
	gr := s.gr("upgraded", "example.com/mine", "stays")
	gr.Spec.Exporter = &topsv1.BaseFields{Version: "1"}
	if err := s.Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	a := s.says(s.gcuWith(t.Context(), grFile("upgraded", "1.1"), "upgrade", "upgraded", "-f", "-"), exitOK,
		"  driver.version: 1.0 -> 1.1", "  exporter: {", "existing pods are not replaced", "gr upgraded is changed")
	if strings.Contains(a.out, "driver.repository") {
		t.Errorf("defaults are told as changes:\n%s", a.out)
	}
	s.read(gr)
	if gr.Spec.Driver.Version != "1.1" || gr.Spec.Exporter != nil || gr.Annotations["example.com/mine"] != "stays" || gr.Generation != 3 {
		t.Errorf("it is %+v", gr)
	}
	s.says(s.gcuWith(t.Context(), grFile("upgraded", "1.1"), "upgrade", "-f", "-"), exitOK, "already has this spec")
	refusals := []struct {
		name, file string
		args       []string
		code       int
		say        string
	}{
		{"another name than is asked for", grFile("upgraded", "2"), []string{"other"}, exitRefused, "holds gr upgraded, not other"},
		{"a gr that does not exist", grFile("absent", "2"), nil, exitRefused, "there is no gr absent to upgrade"},
		{"the uid of another one", strings.Replace(grFile("upgraded", "2"), "metadata: {", "metadata: {uid: other, ", 1), nil, exitRefused, "with UID other"},
		{"another kind", strings.Replace(grFile("upgraded", "2"), "GcuResource", "DaemonRollout", 1), nil, exitUsage, "holds a DaemonRollout"},
		{"the newer group", strings.Replace(grFile("upgraded", "2"), "topsops", "topscloud", 1), nil, exitUsage, "kubectl gcu import"},
		{"two", grFile("upgraded", "2") + "---\n" + grFile("b", "2"), nil, exitUsage, "more than one object"},
		{"none", "---\n", nil, exitUsage, "holds no object"},
		{"no spec", "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: upgraded}\n", nil, exitUsage, "has no spec"},
		{"a component without a value", "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: upgraded}\nspec: {driver: }\n", nil, exitUsage, "spec.driver is null"},
		{"a field that there is not", strings.Replace(grFile("upgraded", "2"), "version:", "release:", 1), nil, exitFailed, "release"},
		{"a value that is not allowed", grFile("upgraded", "a b"), nil, exitFailed, "spec.driver.version"},
	}
	for _, tt := range refusals {
		t.Run("refuses "+tt.name, func(t *testing.T) {
			s.t = t
			s.says(s.gcuWith(t.Context(), tt.file, append([]string{"upgrade", "-f", "-"}, tt.args...)...), tt.code, tt.say)
		})
	}
	s.t = t
	s.read(gr)
	if gr.Generation != 3 {
		t.Errorf("a refused file changed the gr: %+v", gr.Spec)
	}
}

func TestUpgradeWaits(t *testing.T) {
	s := newSite(t)
	gr := s.gr("awaited", topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
	begin := func(version string) chan answer {
		done := make(chan answer)
		go func() {
			done <- s.gcuWith(context.WithoutCancel(t.Context()), grFile("awaited", version), "upgrade", "-f", "-", "--wait", "--timeout", "20s")
		}()
		s.eventually("the new spec", func() bool { s.read(gr); return gr.Spec.Driver.Version == version })
		return done
	}
	report := func(edit func()) {
		gr.Status.ObservedGeneration = gr.Generation
		edit()
		if err := s.Status().Update(t.Context(), gr); err != nil {
			t.Fatal(err)
		}
	}
	done := begin("1.1")
	report(func() {})
	s.says(<-done, exitOK, "Done: 1/1 ready")

	done = begin("1.2")
	report(func() {
		gr.Status.StandardConditions = []metav1.Condition{{Type: "Degraded", Status: metav1.ConditionTrue, Reason: "Broken", Message: "it broke", LastTransitionTime: metav1.Now()}}
	})
	s.says(<-done, exitNotYet, "Broken: it broke")

	report(func() { gr.Status.StandardConditions = nil })
	done = begin("1.3")
	patch := []byte(`{"metadata":{"annotations":{"` + topsv1.AnnotationRolledBackTo + `":"awaited-1"}},"spec":{"driver":{"version":"1.2"}}}`)
	if err := s.Patch(t.Context(), gr, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	s.says(<-done, exitNotYet, "was rolled back to awaited-1")
	s.says(s.gcuWith(t.Context(), grFile("awaited", "1.4"), "upgrade", "-f", "-", "--wait", "--timeout", "1s"), exitNotYet, "timed out after 1s", "has not seen the newest spec")
}

// Concurrent changes by others are kept, and every approval is stored in the end.
func TestWritesAtTheSameTimeDoNotOverwriteEachOther(t *testing.T) {
	s := newSite(t)
	gr := s.gr("busy")
	var writes atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		// Faster than any operator, with gaps, so that no writer starves on a busy machine.
		for ; ctx.Err() == nil; time.Sleep(time.Duration(5+5*(writes.Load()%10)) * time.Millisecond) {
			var live topsv1.GcuResource
			if s.Get(t.Context(), client.ObjectKeyFromObject(gr), &live) == nil {
				live.Status.ReadyResource = []string{"0/1", "1/1"}[writes.Load()%2]
				if s.Status().Update(t.Context(), &live) == nil { // a conflict does not count
					writes.Add(1)
				}
			}
		}
	}()
	for i := 0; i < 5 || writes.Load() < 10; i++ {
		s.says(s.gcu("pause", "busy"), exitOK)
		s.says(s.gcu("resume", "busy"), exitOK)
	}
	file := filepath.Join(t.TempDir(), "gr.yaml")
	if err := os.WriteFile(file, []byte(grFile("busy", "9")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("upgrade", "-f", file), exitOK, "driver.version: 1.0 -> 9")
	stop()
	<-stopped
	s.read(gr)
	if gr.Spec.Driver.Version != "9" || gr.Annotations[topsv1.AnnotationPaused] != "" || gr.Status.Phase != topsv1.PhaseRunning {
		t.Errorf("it is %+v", gr)
	}
}

// Another client changes the spec, or the limit of its upgrade, after it was read and before it is written.
func TestUpgradeRefusesWhenTheSpecChangesInTheSameMoment(t *testing.T) {
	for name, change := range map[string]func(*topsv1.GcuResource){
		"raced": func(gr *topsv1.GcuResource) { gr.Spec.Driver.Version = "7" },
		"raced-limited": func(gr *topsv1.GcuResource) {
			gr.Annotations = map[string]string{topsv1.AnnotationUpgradeOnly: "nodes=a"}
		},
	} {
		s := newSite(t)
		gr := s.gr(name)
		direct, err := client.NewWithWatch(s.config, client.Options{Scheme: s.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		raced := interceptor.NewClient(direct, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if !slices.Contains(options, client.PatchOption(client.DryRunAll)) {
				s.read(gr)
				change(gr)
				if err := s.Update(ctx, gr); err != nil {
					t.Error(err)
				}
			}
			return c.Patch(ctx, o, p, options...)
		}})
		out := terminal{genericiooptions.NewTestIOStreamsDiscard()}
		wanted := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{}}}
		_, err = upgradeSpec(t.Context(), out, &cluster{Client: raced, namespace: operatorNamespace}, wanted, nil)
		if code := exitCode(t.Context(), err); code != exitRefused || !strings.Contains(err.Error(), "was changed concurrently") {
			t.Errorf("%s: exit code %d, %v", name, code, err)
		}
		before := gr.DeepCopy()
		if s.read(gr); gr.Generation != before.Generation || gr.Annotations[topsv1.AnnotationUpgradeOnly] != before.Annotations[topsv1.AnnotationUpgradeOnly] {
			t.Errorf("%s: what somebody else wrote is gone: %+v %v", name, gr.Spec, gr.Annotations)
		}
	}
}

// The operator writes a status after an object was read and before it is written.
func TestAStatusThatIsWrittenInTheSameMomentStopsNothing(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("reported")
	plan := s.planOf(grFile("reported", "1.1"))
	checked, err := readPlan(nil, s.fileOf(plan))
	if err != nil {
		t.Fatal(err)
	}
	s.create(plan.DeepCopy())
	direct, err := client.NewWithWatch(s.config, client.Options{Scheme: s.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	write := func(o client.Object) {
		if s.read(o); o.GetName() == "reported" {
			o.(*topsv1.GcuResource).Status.ReadyResource = strconv.Itoa(writes) + "/9"
		} else {
			o.(*topsv1.UpgradePlan).Status.Undo = int32(writes) + 1
		}
		if writes++; writes%2 == 1 { // each is tried again once
			if err := s.Status().Update(t.Context(), o); err != nil {
				t.Error(err)
			}
		}
	}
	raced := interceptor.NewClient(direct, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
		write(&topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: o.GetName()}})
		return c.Patch(ctx, o, p, options...)
	}, Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
		write(&topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: o.GetName()}})
		return c.Update(ctx, o, options...)
	}})
	out, cl := terminal{genericiooptions.NewTestIOStreamsDiscard()}, &cluster{Client: raced, namespace: operatorNamespace}
	wanted := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "reported"}, "spec": map[string]any{}}}
	if _, err := compareWith(t.Context(), out, cl, wanted); err != nil {
		t.Errorf("comparing: %v", err)
	}
	s.read(gr)
	if err := (&plannedUpgrade{Plan: checked, cl: cl, checked: planfile.Current{Gr: gr}}).store(t.Context(), out); err != nil {
		t.Errorf("storing the plan: %v", err)
	}
	err = (&plannedUpgrade{Plan: checked, cl: cl, checked: planfile.Current{Gr: gr}, step: true}).store(t.Context(), out)
	if code := exitCode(t.Context(), err); code != exitRefused || !strings.Contains(err.Error(), "another client wrote UpgradePlan") {
		t.Errorf("a plan that was not there when it was checked is replaced: %d, %v", code, err)
	}
	if writes != 4 {
		t.Errorf("%d writes were tried, want 4", writes)
	}
}

// unchangeable serves one gr of a generation, and fails when something is written.
type unchangeable struct {
	client.WithWatch
	generation  int64
	annotations map[string]string
}

func (c unchangeable) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetName(key.Name)
	o.SetGeneration(c.generation)
	o.SetAnnotations(c.annotations)
	return nil
}

func (c unchangeable) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errors.New("it is written")
}

// following returns a gr of a generation that follows a plan, "" for none.
func following(generation int64, plan string) *topsv1.GcuResource {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "raced", Generation: generation}}
	if plan != "" {
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpgradePlan, plan)
	}
	return gr
}

func TestUnderOTAAPlanIsNotRunStepByStep(t *testing.T) {
	gr := following(7, "")
	metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpdateStrategy, "OTA")
	cl := &cluster{Client: unchangeable{generation: 7, annotations: gr.Annotations}, namespace: operatorNamespace}
	p := &plannedUpgrade{Plan: &planfile.Plan{Object: &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "mission"},
		Spec: topsv1.UpgradePlanSpec{Batches: []topsv1.PlannedBatch{{Name: "one"}}}}}, cl: cl, checked: planfile.Current{Gr: gr}, step: true}
	err := p.store(t.Context(), terminal{genericiooptions.NewTestIOStreamsDiscard()})
	if code := exitCode(t.Context(), err); code != exitRefused || !strings.Contains(err.Error(), "gr raced has strategy OTA") {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// Another client ends the plan, with upgrade --all, after its successor was compared with the cluster: the generation of the gr
// stays. Its result would be lost.
func TestAPlanThatWasEndedSinceItWasCheckedIsNotReplaced(t *testing.T) {
	cl := &cluster{Client: unchangeable{generation: 7}, namespace: operatorNamespace}
	p := &plannedUpgrade{Plan: &planfile.Plan{Object: &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "mission"}}}, cl: cl,
		checked: planfile.Current{Gr: following(7, "mission")}}
	err := p.store(t.Context(), terminal{genericiooptions.NewTestIOStreamsDiscard()})
	if code := exitCode(t.Context(), err); code != exitRefused || !strings.Contains(err.Error(), "gr raced was changed since this plan was checked") {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// Another client changes the spec after a plan was compared with it, and before the upgrade reads it again.
func TestUpgradeRefusesASpecThatIsNotTheOneThatWasChecked(t *testing.T) {
	for _, tt := range []struct {
		checked int64
		follows string
		want    string
	}{{6, "", "was changed concurrently"}, {7, "mission", "was changed concurrently"}, {7, "", "it is written"}, {0, "", "it is written"}} {
		wanted := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "raced"}, "spec": map[string]any{}}}
		cl := &cluster{Client: unchangeable{generation: 7}, namespace: operatorNamespace}
		var p *plannedUpgrade
		if tt.checked != 0 {
			p = &plannedUpgrade{cl: cl, checked: planfile.Current{Gr: following(tt.checked, tt.follows)}}
		}
		_, err := upgradeSpec(t.Context(), terminal{genericiooptions.NewTestIOStreamsDiscard()}, cl, wanted, p)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("checked %d, at generation 7: %v, want %q", tt.checked, err, tt.want)
		}
	}
}
