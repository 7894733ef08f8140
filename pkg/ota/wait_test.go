package ota

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// waiting starts an operation and waits for a change of it.
func waiting(t *testing.T) (b *bench, id string, news chan reply, stop chan struct{}) {
	t.Helper()
	b = newBench(t, newFleet(), t.TempDir())
	stop, news = make(chan struct{}), make(chan reply, 1)
	h := endpoint.NewHandler(endpoint.Options{Backend: b.Inbox, Stopping: stop, Clock: b.clock, Log: logr.Discard()})
	id = call(t, h, "POST", "/v1/upgrade", "").wants(http.StatusAccepted).operation().ID
	go func() { news <- call(t, h, "GET", "/v1/operations/"+id+"?wait=30s", "") }()
	until(t, "somebody waits", func() bool { return b.clock.HasWaiters() })
	return b, id, news, stop
}

func TestAWaitEndsWithAChange(t *testing.T) {
	b, _, news, _ := waiting(t)
	b.lookAtCluster() // no change
	b.cluster.answerAll(topsv1.TaskRunning, "deleting")
	b.lookAtCluster()
	if o := (<-news).operation(); o.State != request.Running {
		t.Errorf("the news is %+v", o)
	}
}

func TestAWaitEndsAtItsTimeout(t *testing.T) {
	b, _, news, _ := waiting(t)
	b.clock.Step(30 * time.Second)
	if o := (<-news).operation(); o.State != request.Waiting {
		t.Errorf("the answer is %+v", o)
	}
}

func TestAWaitEndsWhenTheAgentStops(t *testing.T) {
	_, _, news, stop := waiting(t)
	close(stop)
	if o := (<-news).operation(); o.State != request.Waiting {
		t.Errorf("the answer is %+v", o)
	}
}

func TestAWaitForAnEndedOperationReturnsAtOnce(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	id := call(t, b.handler(), "POST", "/v1/upgrade", "").operation().ID
	b.cluster.answerAll(topsv1.TaskDone, "replaced")
	b.lookAtCluster()
	if o := call(t, b.handler(), "GET", "/v1/operations/"+id+"?wait=30s", "").operation(); o.State != request.Done {
		t.Errorf("the answer is %+v", o)
	}
}

// maxWaiters is the limit of package endpoint.
const maxWaiters = 8

func TestOneWaiterTooManyIsAnsweredAtOnce(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	stop := make(chan struct{})
	defer close(stop)
	h := endpoint.NewHandler(endpoint.Options{Backend: b.Inbox, Stopping: stop, Clock: b.clock, Log: logr.Discard()})
	id := call(t, h, "POST", "/v1/upgrade", "").operation().ID
	answered := make(chan reply, maxWaiters+3)
	for range maxWaiters + 3 {
		go func() { answered <- call(t, h, "GET", "/v1/operations/"+id+"?wait=30s", "") }()
	}
	for range 3 {
		(<-answered).wants(http.StatusOK)
	}
}
