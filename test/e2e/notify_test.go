package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
	"github.com/topsops/gcu-operator/test/monitoring"
)

// receiver is a webhook.
type receiver struct {
	*httptest.Server
	t      *testing.T
	secret string
	mu     sync.Mutex
	// answers are called in turn for the requests about an approval, the last one for all that follow.
	answers []func() int
	// attempts are the ids of the requests, by type; accepted those that were answered with 2xx.
	attempts, accepted map[string][]string
}

func newReceiver(t *testing.T, answers ...func() int) *receiver {
	r := &receiver{t: t, secret: "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))), answers: answers,
		attempts: map[string][]string{}, accepted: map[string][]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the manager was killed
	}
	webhook, err := standardwebhooks.NewWebhook(r.secret)
	if err != nil {
		r.t.Error(err)
		return
	}
	if err := webhook.Verify(body, request.Header); err != nil {
		r.t.Errorf("the signature is wrong: %v", err)
	}
	var e event.Event
	if err := json.Unmarshal(body, &e); err != nil {
		r.t.Errorf("%s is no CloudEvent: %v", body, err)
		return
	}
	if err := e.Validate(); err != nil || e.ID() != request.Header.Get(standardwebhooks.HeaderWebhookID) {
		r.t.Errorf("the CloudEvent is wrong (%v): %s", err, body)
	}
	status := http.StatusNoContent
	if strings.HasSuffix(e.Type(), ".awaiting-approval.v1") {
		answer := r.answers[0]
		r.answers = r.answers[min(1, len(r.answers)-1):]
		status = answer()
	}
	r.attempts[e.Type()] = append(r.attempts[e.Type()], e.ID())
	if status < 300 {
		r.accepted[e.Type()] = append(r.accepted[e.Type()], e.ID())
	}
	w.WriteHeader(status)
}

// of returns the ids of a type: of all requests, and of those that were accepted.
func (r *receiver) of(kind string) (attempts, accepted []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind = "com.enflame.topsops.rollout." + kind + ".v1"
	return slices.Clone(r.attempts[kind]), slices.Clone(r.accepted[kind])
}

// flags are those of a manager that sends to it.
func (r *receiver) flags() []string {
	file := filepath.Join(r.t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(r.secret+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	// Without the lease, which would be waited for.
	return []string{"--leader-elect=false", "--notify-url=" + r.URL + "/hook", "--notify-secret-file=" + file}
}

// A webhook refuses, and the manager is killed after the webhook has accepted and before it knows: what is
// sent again has the same id. The rollout does not wait for any of it.
func TestNotificationsArriveAtLeastOnceWithTheSameID(t *testing.T) {
	s, ctx := enterAlone(t)
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
	var manager *harness.Process
	refuse := func() int { return http.StatusServiceUnavailable }
	die := func() int { manager.Kill(); return http.StatusNoContent }
	accept := func() int { return http.StatusNoContent }
	r := newReceiver(t, refuse, die, accept)
	flags := r.flags()
	manager = s.startManager(ctx, t, flags...)
	f := newDaemonSet(ctx, t, s, "notified", s.underPolicy("notified"))
	s.policy(ctx, t, "notified", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(3)),
		Waves: []topsv1.Wave{{Name: "all", Size: ptr.To(intstr.FromString("100%")), Approval: topsv1.ApprovalManual}}})
	f.setImage(ctx, "app:2")
	f.reaches(ctx, "waiting for approval", func(st *topsv1.DaemonRolloutStatus) bool {
		return reasonOf(st, topsv1.RolloutProgressing) == "AwaitingApproval"
	})
	s.eventually(ctx, t, func() error {
		if attempts, _ := r.of("awaiting-approval"); len(attempts) < 2 {
			return fmt.Errorf("the webhook has had %d requests", len(attempts))
		}
		return nil
	})
	manager = s.startManager(ctx, t, flags...)
	p := monitoring.Start(t, s.Project.Path("config", "monitoring", "rules.yaml"))
	if err := p.Scrape(strings.TrimPrefix(manager.URL, "http://")); err != nil {
		t.Fatal(err)
	}
	approve(ctx, t, s, f)
	f.complete(ctx, "app:2", stageNodes)
	s.eventually(ctx, t, func() error {
		for _, kind := range []string{"awaiting-approval", "complete"} {
			if _, accepted := r.of(kind); len(accepted) == 0 {
				return fmt.Errorf("no %s was accepted", kind)
			}
		}
		return nil
	})
	attempts, _ := r.of("awaiting-approval")
	if ids := slices.Compact(slices.Clone(attempts)); len(attempts) < 3 || len(ids) != 1 {
		t.Errorf("the same notification was sent with the ids %v", attempts)
	}
	settled := f.reaches(ctx, "known to be delivered", func(st *topsv1.DaemonRolloutStatus) bool {
		return !slices.ContainsFunc(st.Record, func(e topsv1.RolloutRecordEntry) bool { return e.Pending })
	})
	notified(ctx, t, s, p)
	events := make([]string, 0, len(settled.Status.Record))
	for _, e := range settled.Status.Record {
		events = append(events, string(e.Event))
	}
	for _, want := range []topsv1.RolloutEvent{topsv1.RecordStarted, topsv1.RecordAwaitingApproval, topsv1.RecordApproved, topsv1.RecordComplete} {
		if !slices.Contains(events, string(want)) {
			t.Errorf("%s is not in the record: %v", want, events)
		}
	}
}

// notifications begins the names of the metrics of notifications.
const notifications = "gcu_notifications_"

// notified waits until the queries of the dashboards about notifications have data.
func notified(ctx context.Context, t *testing.T, s *stage, p *monitoring.Server) {
	t.Helper()
	all, err := monitoring.Dashboards(s.Project.Path("config", "monitoring", "dashboards"))
	if err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, d := range all {
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				if !strings.Contains(target.Expr, notifications) {
					continue
				}
				queries++
				s.eventually(ctx, t, func() error {
					n, err := p.Query(target.Expr)
					if err == nil && n == 0 {
						err = fmt.Errorf("%s has no data", target.Expr)
					}
					return err
				})
			}
		}
	}
	if queries == 0 {
		t.Error("no dashboard asks for notifications")
	}
}

// approve approves the only wave of a rollout.
func approve(ctx context.Context, t *testing.T, s *stage, f *fixture) {
	t.Helper()
	r := f.reaches(ctx, "at its target", func(st *topsv1.DaemonRolloutStatus) bool { return st.Revision != "" })
	if _, err := s.Kubectl(ctx, "annotate", "dro", f.name, fmt.Sprintf("%s=%s/all", topsv1.AnnotationApprovedWaves, r.Status.Revision)); err != nil {
		t.Fatal(err)
	}
}
