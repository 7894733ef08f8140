package inquiry

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// minorByMinor is a policy by which the driver goes one minor version at a time.
var minorByMinor = topsv1.VersionPolicy{Steps: []topsv1.VersionStep{{Component: "driver", From: "1.4.x", To: "1.5.x"}, {Component: "driver", From: "1.5.x", To: "1.6.x"}}}

// withDriver is a gr under policy p with a version of the driver.
func withDriver(version string, edit func(*topsv1.GcuResource)) *topsv1.GcuResource {
	g := gr(func(s *topsv1.GcuResourceSpec) { s.Driver.Version = version })
	g.Annotations[topsv1.AnnotationUpgradePolicy] = "p"
	if edit != nil {
		edit(g)
	}
	return g
}

// versionsSite is a site under a policy of versions; first and second as for site. The drivers on a and b
// have versions, every other component 1.
func versionsSite(t *testing.T, policy topsv1.VersionPolicy, first, second *topsv1.GcuResource, drivers map[string]string, more ...client.Object) Predictor {
	t.Helper()
	more = append(more, &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: topsv1.UpgradePolicySpec{Versions: &policy}})
	a := site(t, first, second, more...)
	setVersions(t, a, drivers)
	return a
}

// setVersions sets the versions of the drivers on nodes, and 1 for other components without one.
func setVersions(t *testing.T, a Predictor, drivers map[string]string) {
	t.Helper()
	var pods corev1.PodList
	if err := a.Reader.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		pod, version := &pods.Items[i], "1"
		if strings.Contains(pod.Name, "driver") {
			version = drivers[pod.Spec.NodeName]
		}
		if len(pod.Spec.Containers) > 0 && version == "1" {
			continue
		}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "r/x:" + version}}
		if err := a.Reader.(client.Client).Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
}

func ask(t *testing.T, a Predictor, present, wanted *topsv1.GcuResource) *preview.Preview {
	t.Helper()
	answer, err := a.Ask(t.Context(), preview.Question{Present: present, Wanted: wanted, Approved: true})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestOnlyWhatAChangeCausesIsRefused(t *testing.T) {
	const refused = "the UpgradePolicy does not allow these versions: on 2 nodes, as on a: driver 1.4.0 > "
	for _, tt := range []struct {
		name string
		edit func(*topsv1.GcuResource)
		want string
	}{
		{"nothing", func(*topsv1.GcuResource) {}, ""},
		{"another exporter", func(g *topsv1.GcuResource) { g.Spec.Exporter.Version = "2" }, ""},
		{"a variable of the exporter", func(g *topsv1.GcuResource) { g.Spec.Exporter.Env = []corev1.EnvVar{{Name: "X", Value: "y"}} }, ""},
		{"no exporter", func(g *topsv1.GcuResource) { g.Spec.Exporter = nil }, ""},
		{"the exporter is not to be deployed", func(g *topsv1.GcuResource) { g.Spec.Exporter.NotDeploy = true }, ""},
		{"gfd", func(g *topsv1.GcuResource) { g.Spec.GFD = &topsv1.BaseFields{} }, ""},
		{"no volcano", func(g *topsv1.GcuResource) { g.Spec.Volcano = nil }, ""},
		{"another version that is too far", func(g *topsv1.GcuResource) { g.Spec.Driver.Version = "1.6.1" }, refused + "1.6.1"},
		{"along the path", func(g *topsv1.GcuResource) { g.Spec.Driver.Version = "1.5.0" }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			held := withDriver("1.6.0", nil)
			a := versionsSite(t, minorByMinor, withDriver("1.4.0", nil), held, map[string]string{"a": "1.4.0", "b": "1.4.0"})
			onFirstRevision(t, a)
			answer := ask(t, a, held, withDriver("1.6.0", tt.edit))
			if got := answer.Refused(); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("refused: %q, want %q", got, tt.want)
			}
			if waits := answer.Waiting() != ""; tt.want == "" && tt.name != "along the path" && !waits {
				t.Error("the nodes wait, which is not said")
			}
		})
	}
}

// onFirstRevision puts all pods back to the first revision.
func onFirstRevision(t *testing.T, a Predictor) {
	t.Helper()
	var pods corev1.PodList
	if err := a.Reader.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		pods.Items[i].Labels["controller-revision-hash"] = "hash-fleet-1"
		if err := a.Reader.(client.Client).Update(t.Context(), &pods.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// Node a has driver 1.6.0, and b returns with 1.4.0.
func TestANodeThatHasTheVersionsIsReached(t *testing.T) {
	other := func(g *topsv1.GcuResource) {
		g.Annotations[topsv1.AnnotationUpgradePolicy] = "without"
		g.Spec.Driver.Version = "1.6.0"
	}
	without := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "without"}}
	a := versionsSite(t, minorByMinor, withDriver("1.4.0", other), withDriver("1.6.0", nil), map[string]string{"a": "1.6.0", "b": "1.4.0"}, without)
	if got := ask(t, a, withDriver("1.6.0", other), withDriver("1.6.0", nil)); got.Refused() != "" || got.Waiting() == "" {
		t.Errorf("refused %q, waiting %q: want that b waits", got.Refused(), got.Waiting())
	}
}

// A node that runs only other components does not count as one that the versions are allowed on.
func TestANodeWithoutTheComponentSaysNothingOfIt(t *testing.T) {
	onB := func(g *topsv1.GcuResource) { g.Spec.Driver.NodeSelector = map[string]string{"driver": "yes"} }
	present := withDriver("1.4.0", onB)
	a := versionsSite(t, minorByMinor, present, nil, map[string]string{"b": "1.4.0"})
	c := a.Reader.(client.Client)
	if err := c.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: driverPod(t, a, "a")}}); err != nil {
		t.Fatal(err)
	}
	var b corev1.Node
	if err := c.Get(t.Context(), client.ObjectKey{Name: "b"}, &b); err != nil {
		t.Fatal(err)
	}
	b.Labels["driver"] = "yes"
	if err := c.Update(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for name, exporter := range map[string]string{"unchanged": "1", "upgraded": "2"} {
		answer := ask(t, a, present, withDriver("1.6.0", func(g *topsv1.GcuResource) { onB(g); g.Spec.Exporter.Version = exporter }))
		if answer.Refused() == "" {
			t.Errorf("with an exporter that is %s on a, it is not refused: left are %v", name, answer.Left)
		}
	}
	var pods corev1.PodList
	if err := c.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName == "a" {
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			if err := c.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	answer := ask(t, a, present, withDriver("1.6.0", onB))
	if answer.Refused() == "" || !slices.ContainsFunc(answer.Left, func(n preview.LeftNode) bool { return n.Name == "a" }) {
		t.Errorf("with an exporter on a that is not available, it is not refused: left are %v", answer.Left)
	}
}

// driverPod returns the name of the driver's pod on a node.
func driverPod(t *testing.T, a Predictor, node string) string {
	t.Helper()
	var pods corev1.PodList
	if err := a.Reader.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName == node && strings.Contains(pod.Name, "driver") {
			return pod.Name
		}
	}
	t.Fatal("no driver on", node)
	return ""
}

// A plan is asked about as it is: what it leaves out does not matter.
func TestAPlanIsRefusedForItsOwnNodesAndComponents(t *testing.T) {
	present, wanted := withDriver("1.5.0", nil), withDriver("1.6.0", func(g *topsv1.GcuResource) { g.Spec.Exporter.Version = "2" })
	a := versionsSite(t, minorByMinor, present, nil, map[string]string{"a": "1.5.0", "b": "1.5.0"})
	whole, wrong, err := a.PlanFile(t.Context(), present, wanted)
	if err != nil || wrong != "" {
		t.Fatal(wrong, err)
	}
	on := func(nodes ...string) func(*topsv1.UpgradePlanSpec) {
		return func(s *topsv1.UpgradePlanSpec) {
			s.Batches = []topsv1.PlannedBatch{{Name: "x", Jobs: []topsv1.PlannedNodes{{Job: s.Jobs[0].Name, Nodes: nodes}}}}
		}
	}
	exporters := func(s *topsv1.UpgradePlanSpec) {
		s.Jobs = []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}}
		on("a", "b")(s)
	}
	const refused = "the UpgradePolicy does not allow the plan on b, as on b: driver 1.4.0 > 1.6.0: no step allows it (versions.steps); " +
		"the allowed path is 1.4.0 > a version in 1.5.x such as 1.5.0 > 1.6.0: remove from the plan what it does not allow"
	behind, allBehind := map[string]string{"a": "1.5.0", "b": "1.4.0"}, map[string]string{"a": "1.4.0", "b": "1.4.0"}
	for _, tt := range []struct {
		name    string
		drivers map[string]string
		edit    func(*topsv1.UpgradePlanSpec)
		want    string
	}{
		{"one node is too far behind", behind, on("a", "b"), refused},
		{"only that", behind, on("b"), refused},
		{"it is not in the plan", behind, on("a"), ""},
		{"the driver is not in the plan", allBehind, exporters, ""},
		{"none is", nil, on("a", "b"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := versionsSite(t, minorByMinor, present, nil, map[string]string{"a": "1.5.0", "b": "1.5.0"})
			if tt.drivers != nil {
				setVersions(t, a, tt.drivers)
			}
			edited := whole.DeepCopy()
			tt.edit(&edited.Spec)
			plan, err := planfile.Read(edited, upgradeplan.DefaultBook())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := a.CheckPlan(t.Context(), plan, present, wanted); err != nil || got != tt.want {
				t.Errorf("refused %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestWhatAChangeAddsHasToFit(t *testing.T) {
	toolkit := func(version string) func(*topsv1.GcuResource) {
		return func(g *topsv1.GcuResource) { g.Spec.Toolkit = &topsv1.BaseFields{Version: version} }
	}
	requires := func(driver, toolkit string) topsv1.VersionPolicy {
		return topsv1.VersionPolicy{Fit: []topsv1.VersionFit{{Component: "driver", Version: topsv1.VersionRange(driver), Components: []topsv1.ComponentVersion{{Component: "toolkit", Version: topsv1.VersionRange(toolkit)}}}}}
	}
	onS60 := topsv1.VersionPolicy{Fit: []topsv1.VersionFit{{Component: "toolkit", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"card": "s60"}}}}}
	const refused = "the UpgradePolicy does not allow these versions: on 2 nodes, as on a: "
	for _, tt := range []struct {
		name           string
		policy         topsv1.VersionPolicy
		card           string
		wanted         *topsv1.GcuResource
		refused, waits string
		nodes          int
	}{
		{"what the newer driver requires is new", requires(">=1.6.0", ">=1.6.0"), "", withDriver("1.6.0", toolkit("1.6.0")), "", "", 2},
		{"it is new, and too old", requires(">=1.6.0", ">=1.6.0"), "", withDriver("1.6.0", toolkit("1.2.0")),
			refused + "driver 1.5.0 > 1.6.0: it requires toolkit >=1.6.0, but the node would have 1.2.0 (versions.fit[0])", "", 0},
		{"the driver that is there does not fit what is new", requires(">=1.5.0", ">=1.6.0"), "", withDriver("1.5.0", toolkit("1.2.0")),
			refused + "driver 1.5.0 > 1.5.0: it requires toolkit >=1.6.0, but the node would have 1.2.0 (versions.fit[0])", "", 0},
		{"what is new does not fit the nodes", onS60, "", withDriver("1.5.0", toolkit("1.2.0")), refused + "toolkit no version > 1.2.0: it requires node labels card=s60 (versions.fit[0])", "", 0},
		{"it fits one of them", onS60, "s60", withDriver("1.5.0", toolkit("1.2.0")), "",
			"deployed at once, though not allowed by the UpgradePolicy on 1 node, as on b: toolkit no version > 1.2.0: it requires node labels card=s60 (versions.fit[0])", 0},
		{"the driver gets another name, and is too new", minorByMinor, "", withDriver("1.7.0", func(g *topsv1.GcuResource) { g.Spec.Driver.Name = "mine" }),
			refused + "driver 1.5.0 > 1.7.0: no step allows it, and no steps lead there (versions.steps)", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			present := withDriver("1.5.0", nil)
			a := versionsSite(t, tt.policy, present, nil, map[string]string{"a": "1.5.0", "b": "1.5.0"})
			var node corev1.Node
			if err := a.Reader.Get(t.Context(), client.ObjectKey{Name: "a"}, &node); err != nil {
				t.Fatal(err)
			}
			node.Labels["card"] = tt.card
			if err := a.Reader.(client.Client).Update(t.Context(), &node); err != nil {
				t.Fatal(err)
			}
			got := ask(t, a, present, tt.wanted)
			if got.Refused() != tt.refused || got.Waiting() != tt.waits || len(got.Nodes) != tt.nodes {
				t.Errorf("%d nodes, refused %q, waiting %q; want %d, %q, %q", len(got.Nodes), got.Refused(), got.Waiting(), tt.nodes, tt.refused, tt.waits)
			}
		})
	}
}
