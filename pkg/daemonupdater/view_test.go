package daemonupdater

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// TestTheFrameChangesWithAllThatFactsOfNodesDependOn: else a view that is kept
// would go on with facts that do not hold any more.
func TestTheFrameChangesWithAllThatFactsOfNodesDependOn(t *testing.T) {
	fresh := func() (*observation, *rollout.Input) {
		o := observed([]memberAndPods{memberWith(daemonSet("a"))})
		o.policy = &topsv1.UpgradePolicy{}
		o.policy.UID, o.policy.Generation = "uid-policy", 1
		in := inputFrom(o)
		return o, &in
	}
	same, in := fresh()
	before := frameOf(same, in)
	if o, in := fresh(); frameOf(o, in) != before {
		t.Errorf("the frame of the same is %q, was %q", frameOf(o, in), before)
	}
	tests := []struct {
		name   string
		change func(*observation, *rollout.Input)
	}{
		{"another DaemonSet of the same name", func(o *observation, _ *rollout.Input) { o.members[0].daemonSet.UID = "other" }},
		{"an edit that makes no revision, such as minReadySeconds", func(o *observation, _ *rollout.Input) { o.members[0].daemonSet.Generation++ }},
		{"another target", func(_ *observation, in *rollout.Input) { in.Members[0].Target = "newer" }},
		{"another strategy", func(_ *observation, in *rollout.Input) { in.Settings.Strategy = daemonset.OTA }},
		{"a reason for touching nothing", func(_ *observation, in *rollout.Input) { in.Blocked = &rollout.Blocked{} }},
		{"an edit of the policy", func(o *observation, _ *rollout.Input) { o.policy.Generation++ }},
		{"a policy that was made anew", func(o *observation, _ *rollout.Input) { o.policy.UID = "other" }},
		{"no policy", func(o *observation, _ *rollout.Input) { o.policy = nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, in := fresh()
			tt.change(o, in)
			if frameOf(o, in) == before {
				t.Errorf("the frame is still %q", before)
			}
		})
	}
}

// TestNodesOfAPassThatFailedAreReadInTheNext: the events about them are taken by
// the pass that failed.
func TestNodesOfAPassThatFailedAreReadInTheNext(t *testing.T) {
	faults := map[string]interceptor.Funcs{
		"while it read what comes before the nodes": {
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return broken500
			},
		},
		"while it read a node": {
			Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
				if _, ok := object.(*corev1.Node); ok {
					return broken500
				}
				return w.Get(ctx, key, object, opts...)
			},
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, func(ds *appsv1.DaemonSet) { annotate(ds, topsv1.AnnotationPaused, "true") })
			c.mustReconcile()
			if err := c.api.Status().Update(context.Background(), offline(node("a"))); err != nil {
				t.Fatal(err)
			}
			working := c.reconciler.Client
			c.reconciler.Client = interceptor.NewClient(c.api.(client.WithWatch), fault)
			if _, err := c.reconcile(); err == nil {
				t.Fatal("the pass did not fail")
			}
			c.reconciler.Client, c.now = working, c.now.Add(reportInterval)
			if _, err := c.reconciler.Reconcile(context.Background(), groupOf(c.driver)); err != nil {
				t.Fatal(err)
			}
			if got := c.stored().Status.SkippedNodes; got != 1 {
				t.Errorf("%d nodes are skipped, want the one that went offline", got)
			}
		})
	}
}
