package ota

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// TestVersionsOfComparesTargetsByContent: a node read again without a change is not written
// again, although its targets have other addresses in memory.
func TestVersionsOfComparesTargetsByContent(t *testing.T) {
	node := func(revision string) *request.Node {
		return &request.Node{DaemonSets: []request.DaemonSet{{Component: "driver", Target: &request.Template{Revision: revision}}}}
	}
	if first, again := versionsOf(node("a")), versionsOf(node("a")); first != again {
		t.Error("two readings of the same node differ")
	}
	if versionsOf(node("a")) == versionsOf(node("b")) {
		t.Error("another target is not noticed")
	}
	if unknown := (&request.Node{DaemonSets: []request.DaemonSet{{Component: "driver"}}}); versionsOf(unknown) == versionsOf(node("a")) {
		t.Error("a target that becomes known is not noticed")
	}
}

// slowLink is an API server whose DaemonSets are answered together: when the last one is asked for.
type slowLink struct {
	*fakeCluster
	missing atomic.Int32
	all     chan struct{}
}

func (c *slowLink) DaemonSet(ctx context.Context, namespace, name string) (*appsv1.DaemonSet, error) {
	if c.missing.Add(-1) == 0 {
		close(c.all)
	}
	select {
	case <-c.all:
		return c.fakeCluster.DaemonSet(ctx, namespace, name)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestOnASlowLinkDaemonSetsAreReadSideBySide(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	link := &slowLink{fakeCluster: c, all: make(chan struct{})}
	link.missing.Store(3)
	b.loop.node.cluster = link
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := b.loop.node.look(ctx, true); err != nil {
		t.Error(err)
	}
}

// oneFails is an API server that cannot read one DaemonSet.
type oneFails struct {
	*fakeCluster
	fails string
	asked atomic.Int32
}

func (c *oneFails) DaemonSet(ctx context.Context, namespace, name string) (*appsv1.DaemonSet, error) {
	if name == c.fails {
		return nil, errUnreachable
	}
	c.asked.Add(1)
	return c.fakeCluster.DaemonSet(ctx, namespace, name)
}

func TestWhatWasReadBeforeTheLinkWasCutIsNotReadAgain(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	link := &oneFails{fakeCluster: c, fails: "enflame-toolkit"}
	b.loop.node.cluster = link
	for range 2 {
		if _, err := b.loop.node.look(t.Context(), false); err == nil {
			t.Fatal("the toolkit was read")
		}
	}
	link.fails = ""
	node, err := b.loop.node.look(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if asked := link.asked.Load(); len(node.DaemonSets) != 3 || asked != 3 {
		t.Errorf("%d reads of %d DaemonSets", asked, len(node.DaemonSets))
	}
}

// Anybody whose pods run on the node may write such a revision: the rest of the node is upgraded all the same.
func TestARevisionThatCannotBeReadConcernsItsDaemonSetOnly(t *testing.T) {
	c := newFleet()
	c.addComponent("tenant", true)
	c.revisions["kube-system/enflame-tenant-"+newestHash].Data.Raw = []byte(`{"spec":{"template":{"spec":{"containers":"x"}}}}`)
	b := newBench(t, c, t.TempDir())
	o := call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202).operation()
	if o.Offline != "" || o.State != request.Waiting {
		t.Errorf("the operation is %+v, want its requests to be submitted", o)
	}
	if requested := c.requested(); requested["enflame-driver"].Revision != newestHash {
		t.Errorf("requested %+v, want the driver among them", requested)
	}
}
