package ota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/records"
)

var (
	errUnreachable = errors.New("connect: connection refused")
	errForbidden   = apierrors.NewForbidden(schema.GroupResource{Resource: "nodeupgrades"}, "node-a", errors.New("no role"))
)

// fakeCluster is an API server with one node. Its lock guards all fields.
type fakeCluster struct {
	mu          sync.Mutex
	unreachable error // every call fails with it
	applyFails  error
	createFails error
	// responseLost is the error of an apply that took effect.
	responseLost error
	onApply      func() // called inside ApplyStatus, without the lock
	applied      func() // called after a status was applied, without the lock
	node         *corev1.Node
	pods         map[string]*corev1.Pod
	daemonSets   map[string]*appsv1.DaemonSet
	revisions    map[string]*appsv1.ControllerRevision
	nodeUpgrade  *topsv1.NodeUpgrade
	applies      int
	creates      int
	calls        int
}

func newFakeCluster(pods ...*corev1.Pod) *fakeCluster {
	c := &fakeCluster{
		node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "node-uid"}},
		pods: map[string]*corev1.Pod{}, daemonSets: map[string]*appsv1.DaemonSet{}, revisions: map[string]*appsv1.ControllerRevision{},
	}
	for _, pod := range pods {
		c.pods[pod.Namespace+"/"+pod.Name] = pod
	}
	return c
}

// enter takes the lock; it returns an error while the API server is away.
func (c *fakeCluster) enter() error {
	c.mu.Lock()
	c.calls++
	return c.unreachable
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

func (c *fakeCluster) Pod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return nil, err
	}
	if pod := c.pods[namespace+"/"+name]; pod != nil {
		return pod.DeepCopy(), nil
	}
	return nil, notFound("pods", name)
}

func (c *fakeCluster) Pods(context.Context, string) (*corev1.PodList, error) {
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return nil, err
	}
	list := &corev1.PodList{}
	for _, key := range slices.Sorted(maps.Keys(c.pods)) {
		list.Items = append(list.Items, *c.pods[key].DeepCopy())
	}
	return list, nil
}

func (c *fakeCluster) DaemonSet(_ context.Context, namespace, name string) (*appsv1.DaemonSet, error) {
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return nil, err
	}
	if ds := c.daemonSets[namespace+"/"+name]; ds != nil {
		return ds.DeepCopy(), nil
	}
	return nil, notFound("daemonsets", name)
}

func (c *fakeCluster) ControllerRevision(_ context.Context, namespace, name string) (*appsv1.ControllerRevision, error) {
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return nil, err
	}
	if revision := c.revisions[namespace+"/"+name]; revision != nil {
		return revision.DeepCopy(), nil
	}
	return nil, notFound("controllerrevisions", name)
}

func (c *fakeCluster) Node(context.Context, string) (*corev1.Node, error) {
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return nil, err
	}
	if c.node == nil {
		return nil, notFound("nodes", "node-a")
	}
	return c.node.DeepCopy(), nil
}

func (c *fakeCluster) NodeUpgrade(context.Context, string) (*topsv1.NodeUpgrade, error) {
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return nil, err
	}
	if c.nodeUpgrade == nil {
		return nil, notFound("nodeupgrades", "node-a")
	}
	return c.nodeUpgrade.DeepCopy(), nil
}

func (c *fakeCluster) CreateNodeUpgrade(_ context.Context, _ string, nodeUpgrade *topsv1.NodeUpgrade) (*topsv1.NodeUpgrade, error) {
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return nil, err
	}
	if c.createFails != nil {
		return nil, c.createFails
	}
	c.creates++
	c.nodeUpgrade = nodeUpgrade.DeepCopy()
	c.nodeUpgrade.UID = types.UID(fmt.Sprintf("nu-%d", c.creates))
	return c.nodeUpgrade.DeepCopy(), nil
}

func (c *fakeCluster) ApplyStatus(_ context.Context, _ string, nodeUpgrade *topsv1.NodeUpgrade) error {
	if c.onApply != nil {
		c.onApply()
	}
	err := c.apply(nodeUpgrade)
	if err != nil {
		return err
	}
	if c.applied != nil {
		c.applied()
	}
	return c.responseLost
}

func (c *fakeCluster) apply(nodeUpgrade *topsv1.NodeUpgrade) error {
	defer c.mu.Unlock()
	if err := c.enter(); err != nil {
		return err
	}
	if c.applyFails != nil {
		return c.applyFails
	}
	c.applies++
	applied := nodeUpgrade.DeepCopy()
	c.nodeUpgrade.Status.Agent, c.nodeUpgrade.Status.Requests, c.nodeUpgrade.Status.Pulls = applied.Status.Agent, applied.Status.Requests, applied.Status.Pulls
	return nil
}

// fakePuller records pulls, and blocks each until released is closed.
type fakePuller struct {
	mu       sync.Mutex
	pulled   []topsv1.OperationTarget
	released chan struct{}
	results  map[string]*topsv1.HostTaskResult
	refuses  error
}

func (p *fakePuller) Pull(ctx context.Context, _ string, target topsv1.OperationTarget) error {
	p.mu.Lock()
	p.pulled = append(p.pulled, target)
	released := p.released
	p.mu.Unlock()
	if released != nil {
		select {
		case <-released:
		case <-ctx.Done():
		}
	}
	return p.refuses
}

func (p *fakePuller) Pulled(id string) *topsv1.HostTaskResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.results[id]
}

// set changes the cluster under its lock.
func (c *fakeCluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// submitted returns the ids in status.requests.
func (c *fakeCluster) submitted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := []string{}
	if c.nodeUpgrade != nil {
		for _, r := range c.nodeUpgrade.Status.Requests {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// bench is an Inbox on a fake cluster, a fake clock and a real directory.
type bench struct {
	*Inbox
	cluster   *fakeCluster
	clock     *clocktesting.FakeClock
	images    *fakePuller
	directory string
	context   context.Context
}

func newBench(t *testing.T, cluster *fakeCluster, directory string) *bench {
	t.Helper()
	return newBenchAt(t, cluster, directory, clocktesting.NewFakeClock(time.Unix(1700000000, 500)))
}

func newBenchAt(t *testing.T, cluster *fakeCluster, directory string, clock *clocktesting.FakeClock) *bench {
	t.Helper()
	b := &bench{cluster: cluster, clock: clock, directory: directory, context: t.Context(), images: &fakePuller{results: map[string]*topsv1.HostTaskResult{}}}
	inbox, err := NewInbox(Options{
		NodeName: "node-a", StateDirectory: directory, Version: "v1", Cluster: cluster, Puller: b.images, Clock: b.clock, Log: testr.New(t),
	})
	if err != nil {
		t.Fatalf("opening the inbox: %v", err)
	}
	b.Inbox = inbox
	return b
}

// journaled returns the ids on the disk.
func (b *bench) journaled(t *testing.T) []string {
	t.Helper()
	kept, err := records.Open(b.directory, testr.New(t))
	if err != nil {
		t.Fatalf("opening the journals: %v", err)
	}
	ids := []string{}
	for _, r := range kept.Requests.List {
		ids = append(ids, r.ID)
	}
	return ids
}

// breakDisk makes a journal unwritable. File modes would not do, as the tests run as root.
func (b *bench) breakDisk(t *testing.T, journal string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(b.directory, journal)); err != nil {
		t.Fatal(err)
	}
}
