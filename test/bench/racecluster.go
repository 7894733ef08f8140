package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	namespace    = "bench"
	nameLabel    = "bench/name"
	versionLabel = "bench/version"
	// policyName is the UpgradePolicy of the races without a probation.
	policyName = "no-probation"

	// ours is rolled by the manager, theirs by Kubernetes.
	ours   = "ours"
	theirs = "rollingupdate"

	// deployTimeout limits the wait for the first pods of both.
	deployTimeout = 15 * time.Minute
	// settle is the pause after a rollout, whose follow-up work is counted with it.
	settle = 5 * time.Second
)

// raceCluster is a cluster with a manager and the two deployed DaemonSets of a race.
type raceCluster struct {
	race     race
	cluster  *harness.Cluster
	manager  *harness.Process
	fleets   map[string]*fleet
	gauge    *gauge
	progress io.Writer
	parent   string
	// version is the latest version in each DaemonSet's template.
	version map[string]int
	cancel  context.CancelFunc
	// unwatch ends the watch of the gauge.
	unwatch context.CancelFunc
}

// newRaceCluster starts everything, and deploys DaemonSets. The caller must stop it, even after an error.
func newRaceCluster(ctx context.Context, project harness.Project, c race, progress io.Writer, names ...string) (*raceCluster, error) {
	b, err := startRaceCluster(ctx, project, c, progress)
	if err != nil {
		return b, err
	}
	return b, b.deploy(ctx, names...)
}

// startRaceCluster starts everything except the DaemonSets.
func startRaceCluster(ctx context.Context, project harness.Project, c race, progress io.Writer) (*raceCluster, error) {
	b := &raceCluster{race: c, progress: progress, version: map[string]int{}, fleets: map[string]*fleet{}}
	ctx, b.cancel = context.WithCancel(ctx)
	var err error
	if b.parent, err = os.MkdirTemp("", "gcu-bench-"); err != nil {
		return b, fmt.Errorf("creating a folder for the cluster: %w", err)
	}
	args := []string{"--nodes", strconv.Itoa(c.nodes), "--pod-delete-delay", deleteDelay.String(),
		"--kube-controller-manager-qps", strconv.Itoa(c.qps), "--kube-controller-manager-burst", strconv.Itoa(c.burst)}
	if c.lease > 0 {
		args = append(args, "--node-monitor-grace-period", c.grace.String(), "--node-lease-duration", c.lease.String())
	}
	b.cluster, err = harness.StartCluster(ctx, project, b.parent+"/cluster", progress, args...)
	if err != nil {
		return b, err
	}
	if err := b.cluster.Install(ctx); err != nil {
		return b, err
	}
	if c.gate {
		if _, err := b.cluster.Kubectl(ctx, "apply", "--server-side", "-k", "config/gate"); err != nil {
			return b, err
		}
	}
	if err := b.startManager(ctx); err != nil {
		return b, err
	}
	for _, name := range []string{ours, theirs} {
		if b.fleets[name], err = watchFleet(ctx, b.cluster, nameLabel+"="+name); err != nil {
			return b, err
		}
	}
	return b, nil
}

// startManager starts the manager with flags of a case, and a gauge.
func (b *raceCluster) startManager(ctx context.Context, flags ...string) (err error) {
	if b.race.gate {
		flags = append(flags, "--gate")
	}
	if b.manager, err = b.cluster.StartManager(ctx, flags...); err != nil {
		return err
	}
	ctx, b.unwatch = context.WithCancel(ctx)
	b.gauge, err = newGauge(ctx, b.cluster, b.manager)
	return err
}

// stopManager stops the manager, if it runs, and its gauge.
func (b *raceCluster) stopManager() error {
	if b.unwatch != nil {
		b.unwatch()
	}
	if b.manager == nil {
		return nil
	}
	err := b.manager.Stop()
	b.manager = nil
	return err
}

// stop stops the manager and the cluster, and removes their files.
func (b *raceCluster) stop() error {
	b.cancel()
	errs := []error{b.stopManager()}
	if b.cluster != nil {
		errs = append(errs, b.cluster.Stop(b.progress))
	}
	if b.parent != "" {
		errs = append(errs, os.RemoveAll(b.parent))
	}
	return errors.Join(errs...)
}

// deploy creates DaemonSets, waits until every pod is Ready, and then takes the
// offline nodes offline.
func (b *raceCluster) deploy(ctx context.Context, names ...string) error {
	begin := time.Now()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := b.cluster.Client.Create(ctx, ns); err != nil {
		return fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	noProbation := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: policyName}, Spec: topsv1.UpgradePolicySpec{ProbationSeconds: new(int32)}}
	if err := b.cluster.Client.Create(ctx, noProbation); err != nil {
		return fmt.Errorf("creating UpgradePolicy %s: %w", policyName, err)
	}
	for _, name := range names {
		b.version[name] = 1
		reached := b.fleets[name].begin("1", b.race.nodes)
		if err := b.cluster.Client.Create(ctx, b.daemonSet(name)); err != nil {
			return fmt.Errorf("creating DaemonSet %s: %w", name, err)
		}
		if err := await(ctx, reached, deployTimeout); err != nil {
			return fmt.Errorf("waiting for the first pods of %s, %d of %d Ready: %w", name, b.fleets[name].result().updated, b.race.nodes, err)
		}
	}
	b.say("%s deployed in %.0f s", strings.Join(names, " and "), time.Since(begin).Seconds())
	if b.race.offline > 0 {
		if _, err := b.cluster.NodesOff(ctx, b.offlineNodes()...); err != nil {
			return err
		}
		b.say("%d nodes are NotReady", b.race.offline)
	}
	return pause(ctx, settle)
}

// offlineNodes returns the nodes to take offline, spread evenly over all nodes.
func (b *raceCluster) offlineNodes() []string {
	names := make([]string, b.race.offline)
	for i := range names {
		names[i] = fmt.Sprintf("node-%04d", 1+i*b.race.nodes/b.race.offline)
	}
	return names
}

// daemonSet returns one of the two DaemonSets at its first version.
func (b *raceCluster) daemonSet(name string) *appsv1.DaemonSet {
	labels := map[string]string{nameLabel: name}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	ds.Spec.Template.Labels = map[string]string{nameLabel: name, versionLabel: "1"}
	ds.Spec.Template.Annotations = map[string]string{
		"testcluster/pod-ready-delay":     b.race.minStart.String(),
		"testcluster/pod-ready-delay-max": b.race.maxStart.String(),
	}
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "component", Image: "component:1"}}
	if name == ours {
		ds.Annotations = map[string]string{
			topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate",
			topsv1.AnnotationMaxUnavailable: b.race.maxUnavailable(),
		}
		if !b.race.probation {
			ds.Annotations[topsv1.AnnotationUpgradePolicy] = policyName
		}
		ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
		return ds
	}
	most := intstr.Parse(b.race.maxUnavailable())
	ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
		Type:          appsv1.RollingUpdateDaemonSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &most},
	}
	return ds
}

// setVersion changes the template, which starts a rollout.
func (b *raceCluster) setVersion(ctx context.Context, name, version string) error {
	var ds appsv1.DaemonSet
	if err := b.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &ds); err != nil {
		return fmt.Errorf("getting DaemonSet %s: %w", name, err)
	}
	before := ds.DeepCopy()
	ds.Spec.Template.Labels[versionLabel] = version
	if err := b.cluster.Client.Patch(ctx, &ds, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("patching DaemonSet %s: %w", name, err)
	}
	return nil
}

func (b *raceCluster) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "  "+format+"\n", args...)
}

// await waits until a channel is closed, for at most limit.
func await(ctx context.Context, reached <-chan struct{}, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause waits for d, or returns an error if ctx is done before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
