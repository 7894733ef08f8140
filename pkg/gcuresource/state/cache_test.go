package state_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/test/world"
)

func next(w *world.World) topsv1.GcuResourceStatus {
	return status.Describe(w.Observation, plan.Decide(w.Observation, world.Noon), world.Noon)
}

// use gives an observation the cache that the one before left.
func use(t *testing.T, k *world.Cache, obs *world.World) {
	t.Helper()
	if err := k.Use(obs.Observation); err != nil {
		t.Fatal(err)
	}
}

// change replaces an object by a changed copy, as the cache does.
func change(obs *world.World, random *rand.Rand) {
	c := &obs.Components[random.IntN(len(obs.Components))]
	n := random.IntN(len(obs.Nodes))
	switch random.IntN(9) {
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
		obs.Pod(c.Name, obs.Nodes[n].Name, "old")
		c.Pods = append(pods, c.Pods...)
	case 4:
		if len(c.Pods) > 0 {
			c.Pods = slices.Clone(c.Pods)
			c.Pods[0] = c.Pods[0].DeepCopy()
			c.Pods[0].Labels["controller-revision-hash"] = "new"
		}
	case 5:
		c.Revisions = []*appsv1.ControllerRevision{world.Revision(c.DaemonSet, "old", 1), world.Revision(c.DaemonSet, "new", 2)}
		c.Revisions[1].UID = "new"
	case 6:
		c.DaemonSet = c.DaemonSet.DeepCopy()
		c.DaemonSet.ResourceVersion = strconv.Itoa(random.IntN(1000) + 10)
		c.DaemonSet.Spec.Template.Spec.Tolerations = nil
	case 7:
		reports := [][]func(*topsv1.NodeUpgrade){nil, {world.Runc}, {world.NoDriver}}
		obs.Report(obs.Nodes[n].Name, reports[random.IntN(len(reports))]...)
	case 8:
		obs.Nodes = slices.Clone(obs.Nodes)
		obs.Nodes[n] = obs.Nodes[n].DeepCopy()
		obs.Offer(obs.Nodes[n].Name, "enflame.com/gcu", strconv.Itoa(random.IntN(2)))
	}
}

func TestWhatIsKeptNeverChangesADecision(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		gr := world.NewGR(world.OnNodes())
		obs := world.New(t, gr, 8)
		obs.Run("nfd", "driver", "toolkit", "devicePlugin", "exporter", "gfd")
		k := world.NewCache()
		for step := range 100 {
			if random.IntN(3) > 0 {
				change(obs, random)
			}
			fresh, keeping := obs, obs.Copied()
			use(t, k, keeping)
			want, got := next(fresh), next(keeping)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, step %d: status (-nothing kept +kept):\n%s", seed, step, diff)
			}
			if a, b := plan.Decide(fresh.Observation, world.Noon), plan.Decide(keeping.Observation, world.Noon); !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d, step %d: the plan is %+v with nothing kept, else %+v", seed, step, a, b)
			}
		}
	}
}

func TestTheSameObjectsAreNotLookedAtAgain(t *testing.T) {
	obs := world.New(t, world.NewGR(world.OnNodes()), 3)
	obs.Run("nfd", "driver", "toolkit", "devicePlugin", "exporter", "gfd")
	k := world.NewCache()
	use(t, k, obs)
	next(obs)
	use(t, k, obs)
	obs.Component("driver").Pods[0].Status.Conditions = nil // the cache never changes objects in place
	if got := next(obs).Phase; got != "Running" {
		t.Errorf("phase %s: the pods were looked at again", got)
	}
	c := obs.Component("driver")
	c.Pods = slices.Clone(c.Pods)
	c.Pods[0] = c.Pods[0].DeepCopy()
	use(t, k, obs)
	if got := next(obs).Phase; got != "deploying" {
		t.Errorf("phase %s: a pod that changed was not looked at", got)
	}
}
