package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// An upgrade may restart the API server: on a node with k3s it is part of what restarts with the runtime.
func TestAWaitGoesOnWhileTheAPIServerIsAway(t *testing.T) {
	call := func(err error) error { return &url.Error{Op: "Get", URL: "https://gcu", Err: err} }
	down := fmt.Errorf("get: %w", call(syscall.ECONNREFUSED))
	busy := apierrors.NewInternalError(down)
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "gcuresources"}, "a")
	for name, tt := range map[string]struct {
		reads []error // nil: it is not done yet; then it is
		want  string
		says  int
	}{
		"for a while":                    {[]error{nil, down, busy, nil, down}, "", 2},
		"also in the middle of a read":   {[]error{nil, fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), errors.New("http2: client connection lost")}, "", 1},
		"also if its stream is cut":      {[]error{nil, errors.New("stream error when reading response body, may be caused by closed connection")}, "", 1},
		"not if the login has ended":     {[]error{nil, call(errors.New("getting credentials: exec: it failed"))}, "exec", 0},
		"not if its certificate is bad":  {[]error{nil, call(x509.UnknownAuthorityError{})}, "certificate", 0},
		"not if it is another error":     {[]error{nil, errors.New("it cannot be read")}, "cannot be read", 0},
		"not if it was never seen":       {[]error{down}, "connection refused", 0},
		"not if the object is gone":      {[]error{nil, gone}, "not found", 0},
		"not if the request was refused": {[]error{nil, refused("no")}, "no", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			out := terminal{genericiooptions.IOStreams{Out: &said, ErrOut: &said}}
			changed := make(chan struct{}, len(tt.reads))
			for range tt.reads {
				changed <- struct{}{}
			}
			err := await(t.Context(), out, 0, changed, func(context.Context) (bool, string, error) {
				if len(tt.reads) == 0 {
					return true, "", nil
				}
				next := tt.reads[0]
				tt.reads = tt.reads[1:]
				return false, "a node", next
			})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if got := strings.Count(said.String(), "still waiting"); got != tt.says {
				t.Errorf("it says %d times that it waits:\n%s", got, &said)
			}
		})
	}
	err := await(t.Context(), terminal{genericiooptions.IOStreams{ErrOut: &bytes.Buffer{}}}, time.Second, nil, func() func(context.Context) (bool, string, error) {
		first := true
		return func(context.Context) (bool, string, error) {
			if first {
				first = false
				return false, "a node", nil
			}
			return false, "", down
		}
	}())
	if exitCode(t.Context(), err) != exitNotYet {
		t.Errorf("a timeout ends with %v", err)
	}
}

// What is left of a limited upgrade is asked with lists of all nodes and pods.
func TestAWaitSeldomAsksWhatIsLeftOfALargeFleet(t *testing.T) {
	s := newSite(t)
	for name, fleet := range map[string]struct {
		nodes       int32
		least, most int
	}{"seldom-small": {10, 4, 100}, "seldom-large": {5000, 2, 2}} {
		t.Run(name, func(t *testing.T) {
			s.gr(name, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
			s.rollout(name, topsv1.DaemonRolloutStatus{Revision: "r", Total: fleet.nodes})
			asked := 0
			var out bytes.Buffer
			looks := 0
			err := follow(t.Context(), terminal{genericiooptions.IOStreams{Out: &out, ErrOut: &out}}, clusterOf(t, s), name, 20*time.Second, func(context.Context, *topsv1.GcuResource, *display.Status) (bool, error) {
				asked++
				return false, nil
			}, func(context.Context, *topsv1.GcuResource) (string, error) {
				looks++
				s.change(name, func(status *topsv1.DaemonRolloutStatus) {
					status.Updated++
					if looks == 5 { // a halt ends the wait, unless nothing is left within the limit
						status.Conditions = []metav1.Condition{{Type: topsv1.RolloutProgressing, Status: metav1.ConditionFalse, Reason: topsv1.ReasonNodesFailed, Message: "halted", LastTransitionTime: metav1.Now()}}
					}
				})
				return "", nil
			})
			if exitCode(t.Context(), err) != exitNotYet || asked < fleet.least || asked > fleet.most {
				t.Errorf("asked %d times in %d looks, want %d to %d: %v", asked, looks, fleet.least, fleet.most, err)
			}
		})
	}
	if pause := pauseAfter(&display.Rollout{Nodes: display.Counts{Total: 10_000}}); pause != 10*time.Second {
		t.Errorf("the longest pause is %s", pause)
	}
	if pause := pauseAfter(nil); pause != time.Second {
		t.Errorf("the pause is %s while there is no rollout", pause)
	}
}

// While nothing changes a wait looks seldom, and a change that it did not ask about is asked about later.
func TestAWaitRestsWhileNothingChanges(t *testing.T) {
	s := newSite(t)
	for name, tt := range map[string]struct {
		nodes int32 // -1: there is no rollout yet
		asked int
	}{"rests-small": {10, 1}, "rests-unknown": {-1, 1}, "rests-changed": {150, 2}} {
		t.Run(name, func(t *testing.T) {
			if tt.nodes < 0 {
				s.create(&topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: topsv1.GcuResourceStatus{ObservedGeneration: 1, Phase: topsv1.PhaseDeploying}})
			} else {
				s.gr(name, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
				s.rollout(name, topsv1.DaemonRolloutStatus{Revision: "r", Total: tt.nodes})
			}
			asked, looks := 0, 0
			out := terminal{genericiooptions.NewTestIOStreamsDiscard()}
			err := follow(t.Context(), out, clusterOf(t, s), name, 4*time.Second, func(context.Context, *topsv1.GcuResource, *display.Status) (bool, error) {
				if asked++; asked == 1 && tt.asked > 1 {
					s.change(name, func(status *topsv1.DaemonRolloutStatus) { status.Updated++ })
				}
				return false, nil
			}, func(context.Context, *topsv1.GcuResource) (string, error) {
				looks++
				return "", nil
			})
			// The beginning of each of its two watches may be a change too.
			if exitCode(t.Context(), err) != exitNotYet || asked < tt.asked || asked > tt.asked+2 || looks > 6 {
				t.Errorf("asked %d times in %d looks, want about %d: %v", asked, looks, tt.asked, err)
			}
		})
	}
}
