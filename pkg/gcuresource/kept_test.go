package gcuresource

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// keeping lets an observation use what the one before left, as observe does: a
// count changes when a list has other objects than it had.
func (obs *Observation) keeping(k *kept) {
	obs.kept = k
	count := 0
	if k.nodes != nil {
		count = k.nodes.count
		if !sameObjects(k.nodes.list, obs.Nodes) {
			count++
		}
	}
	obs.fleet = k.keepNodes(count, func() []any { return shuffled(obs.Nodes) })
	obs.Nodes = obs.fleet.list
	for i := range obs.Components {
		c := &obs.Components[i]
		if was := k.pods[c.Name]; was == nil || !sameObjects(was.selected, c.Pods) {
			k.pods[c.Name] = &keptPods{selected: c.Pods}
		}
		c.kept, c.Pods = k.pods[c.Name], k.pods[c.Name].selected
	}
}

func sameObjects[T comparable](a, b []T) bool {
	set := map[T]bool{}
	for _, o := range a {
		set[o] = true
	}
	return len(a) == len(b) && !slices.ContainsFunc(b, func(o T) bool { return !set[o] })
}

func shuffled[T any](list []T) []any {
	mixed := make([]any, len(list))
	for i, j := range rand.Perm(len(list)) {
		mixed[i] = list[j]
	}
	return mixed
}

// change puts another object in the place of one, as the cache does.
func (obs *Observation) change(random *rand.Rand) {
	c := &obs.Components[random.IntN(len(obs.Components))]
	n := random.IntN(len(obs.Nodes))
	switch random.IntN(7) {
	case 0:
		obs.Nodes = slices.Clone(obs.Nodes)
		obs.Nodes[n] = obs.Nodes[n].DeepCopy()
		ready := &obs.Nodes[n].Status.Conditions[0].Status
		*ready = map[corev1.ConditionStatus]corev1.ConditionStatus{corev1.ConditionTrue: corev1.ConditionFalse, corev1.ConditionFalse: corev1.ConditionTrue}[*ready]
	case 1:
		obs.Nodes = slices.Clone(obs.Nodes)
		obs.Nodes[n] = obs.Nodes[n].DeepCopy()
		obs.Nodes[n].Spec.Taints = append(obs.Nodes[n].Spec.Taints, corev1.Taint{Key: "maintenance", Effect: corev1.TaintEffectNoExecute})
	case 2:
		if len(c.Pods) > 0 {
			c.Pods = slices.Delete(slices.Clone(c.Pods), 0, 1)
		}
	case 3:
		pods := slices.Clone(c.Pods)
		c.Pods = nil
		obs.pod(c.Name, obs.Nodes[n].Name, "old")
		c.Pods = append(pods, c.Pods...)
	case 4:
		if len(c.Pods) > 0 {
			c.Pods = slices.Clone(c.Pods)
			c.Pods[0] = c.Pods[0].DeepCopy()
			c.Pods[0].Labels["controller-revision-hash"] = "new"
		}
	case 5:
		c.Revisions = []*appsv1.ControllerRevision{revision(c.DaemonSet, "old", 1), revision(c.DaemonSet, "new", 2)}
		c.Revisions[1].UID = "new"
	case 6:
		c.DaemonSet = c.DaemonSet.DeepCopy()
		c.DaemonSet.ResourceVersion = strconv.Itoa(random.IntN(1000) + 10)
		c.DaemonSet.Spec.Template.Spec.Tolerations = nil
	}
}

func TestWhatIsKeptNeverChangesADecision(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		gr := newGR(onNodes())
		obs := newWorld(t, gr, 8)
		obs.run("nfd", "driver", "toolkit", "devicePlugin", "exporter", "gfd")
		k := newKept()
		for step := range 100 {
			if random.IntN(3) > 0 {
				obs.change(random)
			}
			fresh, keeping := *obs, *obs
			keeping.Components = slices.Clone(obs.Components)
			keeping.keeping(k)
			want, got := fresh.next(), keeping.next()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, step %d: status (-nothing kept +kept):\n%s", seed, step, diff)
			}
			if diff := cmp.Diff(told(Decide(&fresh, noon)), told(Decide(&keeping, noon))); diff != "" {
				t.Fatalf("seed %d, step %d: plan (-nothing kept +kept):\n%s", seed, step, diff)
			}
		}
	}
}

func TestTheSameObjectsAreNotLookedAtAgain(t *testing.T) {
	obs := newWorld(t, newGR(onNodes()), 3)
	obs.run("nfd", "driver", "toolkit", "devicePlugin", "exporter", "gfd")
	k := newKept()
	obs.keeping(k)
	obs.next()
	obs.keeping(k)
	obs.component("driver").Pods[0].Status.Conditions = nil // the cache never does this
	if got := obs.next().Phase; got != "Running" {
		t.Errorf("phase %s: the pods were looked at again", got)
	}
	c := obs.component("driver")
	c.Pods = slices.Clone(c.Pods)
	c.Pods[0] = c.Pods[0].DeepCopy()
	obs.keeping(k)
	if got := obs.next().Phase; got != "deploying" {
		t.Errorf("phase %s: a pod that changed was not looked at", got)
	}
}
