package hostile

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/fixture"
)

// TestARequestOfAnAgentConcernsItsOwnPodsOnly: the agent of one node asks for what is not its own, 64 times, and in
// the future; the manager, with its own token, refuses all of it, and upgrades the node of another agent.
func TestARequestOfAnAgentConcernsItsOwnPodsOnly(t *testing.T) {
	s := cluster(t)
	admin := s.Client(t, apiserver.Admin)
	ctx := t.Context()
	ds := requested(t, admin, "requested")
	pods := map[string]*corev1.Pod{}
	for _, node := range []string{"liar", "honest", "victim"} {
		addNode(t, s, node)
		pods[node] = outdatedPod(t, admin, ds, node)
	}
	bare := outdatedPod(t, admin, ds, "bare")
	startUpdater(t, s)

	var lies []any
	for _, r := range []topsv1.UpgradeRequest{fixture.Request("of-another-node", ds, pods["victim"]), fixture.Request("of-no-node", ds, bare)} {
		r.RequestTime = metav1.NewTime(time.Now().Add(10 * 365 * 24 * time.Hour).Truncate(time.Second))
		lies = append(lies, r)
	}
	lies = append(lies, requestsFor(64-len(lies))...)
	check(t, write(t, agentOf(t, s, "liar"), "liar", object{"requests": lies}))
	honest := fixture.Request("honest", ds, pods["honest"])
	honest.RequestTime = metav1.NewTime(time.Now().Truncate(time.Second))
	check(t, write(t, agentOf(t, s, "honest"), "honest", object{"requests": []any{honest}}))

	var told topsv1.NodeUpgrade
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if err := admin.Get(ctx, client.ObjectKey{Name: "liar"}, &told); err != nil || len(told.Status.Tasks) < len(lies) {
			return false, err
		}
		err := admin.Get(ctx, client.ObjectKeyFromObject(pods["honest"]), pods["honest"])
		return pods["honest"].DeletionTimestamp != nil, err // its kubelet would end it
	})
	if err != nil {
		t.Fatalf("%v: the pod of the honest node is not deleted, or lies have no answer: %d of %d, %+v", err, len(told.Status.Tasks), len(lies), told.Status.Tasks)
	}
	for _, task := range told.Status.Tasks {
		if task.State != topsv1.TaskFailed {
			t.Errorf("request %s is %s (%s)", task.RequestID, task.State, task.Message)
		}
	}
	for _, pod := range []*corev1.Pod{pods["liar"], pods["victim"], bare} {
		check(t, admin.Get(ctx, client.ObjectKeyFromObject(pod), pod))
		if pod.DeletionTimestamp != nil {
			t.Errorf("pod %s is deleted", pod.Name)
		}
	}
}

// requested creates a DaemonSet whose pods are upgraded on request, with two revisions.
func requested(t *testing.T, admin client.Client, name string) *appsv1.DaemonSet {
	t.Helper()
	ds := daemonSet(name, "")
	ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	ds.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationMaxUnavailable: "100%"}
	check(t, admin.Create(t.Context(), ds))
	t.Cleanup(func() { check(t, admin.Delete(context.Background(), ds)) })
	for _, r := range fixture.RevisionsOf(ds, fixture.OldHash, fixture.NewHash) {
		r.UID, r.Data.Raw = "", []byte(`{}`)
		check(t, admin.Create(t.Context(), r))
	}
	ds.Status.ObservedGeneration = ds.Generation
	check(t, admin.Status().Update(t.Context(), ds))
	return ds
}

// outdatedPod creates an available pod of the old revision on a Ready node.
func outdatedPod(t *testing.T, admin client.Client, ds *appsv1.DaemonSet, node string) *corev1.Pod {
	t.Helper()
	pod := fixture.PodOn(ds, node, fixture.OldHash)
	pod.UID = ""
	pod.Spec.Containers = ds.Spec.Template.Spec.Containers
	status := pod.Status
	check(t, admin.Create(t.Context(), pod))
	pod.Status = status
	check(t, admin.Status().Update(t.Context(), pod))
	live := &corev1.Node{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: node}, live); !apierrors.IsNotFound(err) {
		check(t, err)
		live.Status.Conditions = fixture.Node(node).Status.Conditions
		check(t, admin.Status().Update(t.Context(), live))
	}
	return pod
}

// startUpdater runs the controller of rollouts with the manager's rights.
func startUpdater(t *testing.T, s *apiserver.Server) {
	t.Helper()
	mgr, err := ctrl.NewManager(s.As(apiserver.Operator), ctrl.Options{Scheme: s.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: config.Controller{SkipNameValidation: ptr.To(true)}}) // several tests start one
	check(t, err)
	check(t, (&daemonupdater.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: &events.FakeRecorder{}, Metrics: metrics.New(prometheus.NewRegistry()),
		Namespace: apiserver.Namespace, Book: upgradeplan.DefaultBook(), Deadlines: rollout.DefaultDeadlines, Clock: time.Now}).SetupWithManager(mgr))
	runUntilTheEnd(t, mgr)
}

// runUntilTheEnd runs a manager until the test ends.
func runUntilTheEnd(t *testing.T, mgr ctrl.Manager) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		check(t, <-ended)
	})
}
