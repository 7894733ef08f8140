package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// screen is what a running command has printed.
type screen struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.String()
}

// running is a command that goes on.
type running struct {
	*site
	screen screen
	code   chan int
}

// start runs a command until the returned function is called.
func (s *site) start(args ...string) (r *running, stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	r = &running{site: s, code: make(chan int, 1)}
	go func() {
		r.code <- run(ctx, append(args, "--kubeconfig", s.kubeconfig), strings.NewReader(""), &r.screen, &r.screen)
	}()
	s.t.Cleanup(cancel)
	return r, cancel
}

// shows waits until the command has printed all words.
func (r *running) shows(words ...string) {
	r.t.Helper()
	for _, w := range words {
		r.eventually("it prints "+w, func() bool {
			select {
			case code := <-r.code:
				r.t.Fatalf("it ended with code %d:\n%s", code, r.screen.String())
			default:
			}
			return strings.Contains(r.screen.String(), w)
		})
	}
}

// change changes the status of a DaemonRollout.
func (s *site) change(name string, edit func(*topsv1.DaemonRolloutStatus)) {
	s.t.Helper()
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	s.read(dro)
	before := dro.DeepCopy()
	edit(&dro.Status)
	if err := s.Status().Patch(s.t.Context(), dro, client.MergeFrom(before)); err != nil {
		s.t.Fatal(err)
	}
}

func resumed(status *topsv1.DaemonRolloutStatus) {
	status.Failed, status.FailedNodes = nil, 0
	meta.RemoveStatusCondition(&status.Conditions, topsv1.RolloutHalted)
}

func TestNodesAreWatched(t *testing.T) {
	s := newSite(t)
	s.fleet("watched")
	s.says(s.gcu("nodes", "watched", "--watch", "-o", "json"), exitUsage, "--watch prints text only")
	r, stop := s.start("nodes", "watched", "--watch")
	r.shows("NODE", "watched-1   updated", "watched-2   failed")
	s.change("watched", resumed)
	r.shows("watched-2: pending")
	if text := r.screen.String(); strings.Contains(text, "watched-1:") {
		t.Errorf("a node that did not change was printed:\n%s", text)
	}
	stop()
	if code := <-r.code; code == exitOK || strings.Contains(r.screen.String(), "panic") {
		t.Errorf("code %d after it was stopped:\n%s", code, r.screen.String())
	}
}

// The time limit is shorter than the time between two looks without a change.
func TestAStatusIsFollowedByAWatch(t *testing.T) {
	s := newSite(t)
	s.fleet("followed")
	s.change("followed", func(status *topsv1.DaemonRolloutStatus) {
		resumed(status)
		status.InFlightNodes = 1
	})
	r, stop := s.start("status", "followed", "--watch", "--timeout", (lookAtLeast / 2).String())
	defer stop()
	r.shows("1 of 2 updated")
	s.change("followed", func(status *topsv1.DaemonRolloutStatus) {
		status.InFlightNodes, status.FailedNodes = 0, 1
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: topsv1.RolloutHalted, Status: metav1.ConditionTrue, Reason: "Halted", Message: "1 node failed"})
	})
	if code := <-r.code; code != exitNotYet || !strings.Contains(r.screen.String(), "Halted: 1 node failed") {
		t.Errorf("code %d:\n%s", code, r.screen.String())
	}
}

// Who may not watch sees changes all the same.
func TestAStatusIsFollowedWithoutTheRightToWatch(t *testing.T) {
	changed := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		follows(ctx, changed, func() (watch.Interface, error) { return nil, errors.New("forbidden") })
	}()
	<-changed
	<-changed
	cancel()
	<-done
}
