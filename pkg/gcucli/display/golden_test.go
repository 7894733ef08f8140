package display

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/test/golden"
)

func TestGoldenStatus(t *testing.T) {
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			f := load(t, name)
			s := StatusOf(f.Resource, f.Rollout, f.Upgrades, f.NotShown, now)
			if s.Rollout != nil {
				s.Rollout.Windows = WindowsOf(f.Rollout, f.Policy, nil, now)
			}
			golden.Check(t, "golden/"+name+".status.txt", s.Text(Style{Now: now})+"\n"+s.Line()+"\n"+s.Progress(Style{Now: now}, 79)+"\n")
			golden.Check(t, "golden/"+name+".status.wide.txt", s.Text(Style{Now: now, Wide: true}))
			golden.Check(t, "golden/"+name+".status.out.yaml", inYAML(t, s))
		})
	}
}

func TestGoldenNodes(t *testing.T) {
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			nodes := NodesOf(load(t, name).fleet())
			golden.Check(t, "golden/"+name+".nodes.txt", NodesText(nodes, Style{Now: now}))
			golden.Check(t, "golden/"+name+".nodes.wide.txt", NodesText(nodes, Style{Now: now, Wide: true}))
			golden.Check(t, "golden/"+name+".nodes.out.yaml", inYAML(t, nodes))
		})
	}
}

func TestGoldenWaves(t *testing.T) {
	f := load(t, "rolling")
	waves := WavesOf(f.Rollout, f.Policy, nil, now)
	golden.Check(t, "golden/rolling.waves.txt", WavesText(waves, Style{Now: now})+WhichWait(waves)+"\n")
	golden.Check(t, "golden/rolling.waves.out.yaml", inYAML(t, waves))
}

func TestColorsMarkWordsAndNothingElse(t *testing.T) {
	for _, name := range fixtures(t) {
		f := load(t, name)
		s := StatusOf(f.Resource, f.Rollout, f.Upgrades, f.NotShown, now)
		colored := s.Text(Style{Now: now, Color: true})
		if !strings.Contains(colored, "\x1b[") {
			t.Errorf("%s: no word has a color", name)
		}
		plain := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(colored)
		if want := s.Text(Style{Now: now}); plain != want {
			t.Errorf("%s: with the colors taken out it is\n%s, want\n%s", name, plain, want)
		}
	}
}

// The order of lists does not matter.
func TestNodesAreTheSameInAnyOrder(t *testing.T) {
	f := load(t, "rolling").fleet()
	want := inYAML(t, NodesOf(f))
	slices.Reverse(f.Nodes)
	slices.Reverse(f.Pods)
	slices.Reverse(f.Revisions)
	slices.Reverse(f.NodeUpgrades)
	if got := inYAML(t, NodesOf(f)); got != want {
		t.Errorf("reversed lists make\n%s, want\n%s", got, want)
	}
}

// fleet returns nodes and pods of one DaemonSet.
func (f *fixture) fleet() *Fleet {
	set := appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "driver", UID: "ds", Generation: 2},
		Status:     appsv1.DaemonSetStatus{ObservedGeneration: 2},
	}
	set.Spec.Template.Spec.NodeSelector = map[string]string{"gcu": "true"}
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "driver", UID: "ds", Controller: ptr.To(true)}}
	fleet := &Fleet{Resource: f.Resource, Rollout: f.Rollout, NodeUpgrades: f.Upgrades, Now: now, DaemonSets: []appsv1.DaemonSet{set}}
	for i, hash := range []string{"old", "new"} {
		fleet.Revisions = append(fleet.Revisions, appsv1.ControllerRevision{Revision: int64(i + 1), ObjectMeta: metav1.ObjectMeta{
			Name: hash, OwnerReferences: owner, Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: hash}}})
	}
	for _, name := range slices.Sorted(maps.Keys(f.Nodes)) {
		spec := f.Nodes[name]
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: truth(!spec.Offline), LastTransitionTime: metav1.NewTime(now.Add(-48 * time.Hour))}}}}
		if !spec.Away {
			node.Labels = map[string]string{"gcu": "true"}
		}
		fleet.Nodes = append(fleet.Nodes, node)
		if spec.Revision != "" {
			fleet.Pods = append(fleet.Pods, corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "driver-" + name, OwnerReferences: owner, Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: spec.Revision}},
				Spec:       corev1.PodSpec{NodeName: name},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: truth(!spec.Unavailable)}}},
			})
		}
	}
	return fleet
}

func truth(is bool) corev1.ConditionStatus {
	if is {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// Others write messages, but not lines, cells or colors.
func TestMessagesForgeNothing(t *testing.T) {
	const nasty, plain = "\x1b[31ma\x1b[0m\u009b\nFORGED", `\u001b[31ma\u001b[0m\u009b\nFORGED`
	rollout := &Rollout{State: nasty, Rollback: &RolledBack{Message: nasty}, Waves: []WaveCount{{Name: nasty, Total: 1}, {Name: "b", Total: 1}},
		Waiting: []WaitingFor{{Reason: nasty, Message: nasty}}}
	s := &Status{Outcome: Outcome{State: Stopped, Message: nasty}, Components: []Component{{Name: nasty, Status: nasty}}, Rollout: rollout,
		Nodes: []Node{{Name: nasty, State: nasty, Message: nasty}}}
	style := Style{Now: now, Color: true}
	texts := map[string]string{"status": s.Text(style), "progress": s.Progress(style, 200), "line": s.Line(), "no rollout": (&Status{Outcome: s.Outcome}).Line(),
		"plan":   PlanText(&preview.Preview{Rollout: preview.Rollout{Blocked: nasty, Nodes: []preview.Node{{Name: "n", BlockedBy: nasty}}}}, []Change{{Field: "f", From: nasty, To: nasty}}, style),
		"a cell": Table{Header: []string{"A", "B"}, Rows: [][]Cell{{{Text: nasty}, {Text: "b"}}}}.Text(Style{})}
	for name, text := range texts {
		if strings.Contains(text, "\x1b[31ma") || strings.ContainsAny(text, "\u009b") || strings.Contains(text, "\nFORGED") || !strings.Contains(text, plain) {
			t.Errorf("%s: %q", name, text)
		}
	}
	if want := "A" + strings.Repeat(" ", len(plain)+2) + "B\n" + plain + "   b\n"; texts["a cell"] != want {
		t.Errorf("the table is\n%s, want\n%s", texts["a cell"], want)
	}
}
