package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/test/harness"
	"github.com/topsops/gcu-operator/test/monitoring"
)

// A Prometheus that scrapes the manager fires the alerts of the shipped rules when they must fire, and
// none about a rollout that is well; and it answers the queries of the dashboards.
func TestPrometheusFiresTheAlertsOfAHaltedRollout(t *testing.T) {
	s, ctx := enter(t)
	p := monitoring.Start(t, s.Project.Path("config", "monitoring", "rules.yaml"))
	s.fire(ctx, t, p, "", "GCUOperatorAbsent")
	if err := p.Scrape(strings.TrimPrefix(crowd.manager.URL, "http://")); err != nil {
		t.Fatal(err)
	}
	annotations := map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "2"}
	good := newDaemonSet(ctx, t, s, "well", annotations)
	good.setFree(ctx, "app:2")
	bad := newDaemonSet(ctx, t, s, "ill", annotations)
	bad.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = "app:bad"
		ds.Spec.Template.Labels[harness.BehaviourLabel] = "crash-loop"
	})
	bad.reaches(ctx, "halted", func(st *topsv1.DaemonRolloutStatus) bool { return st.FailedNodes > 0 })
	s.fire(ctx, t, p, "default/"+bad.name, "GCURolloutHalted", "GCURolloutNodesFailed")
	good.complete(ctx, "app:2", stageNodes)
	s.fire(ctx, t, p, "default/"+good.name)
	answers(t, p, s.Project.Path("config", "monitoring", "dashboards"), ofOperations, ofOthers)
	alerts, err := p.Alerts()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts {
		switch {
		case a.Labels["alertname"] == "GCUOperatorAbsent":
			t.Error("the manager is scraped, and called absent")
		case a.Labels["alertname"] == "GCURolloutHalted" && a.Labels["rollout"] == "default/"+bad.name: // those of other stories halt too
			if want := "Rollout " + a.Labels["rollout"] + " is halted: CrashLooping"; a.Annotations["summary"] != want {
				t.Errorf("its summary is %q, want %q", a.Annotations["summary"], want)
			}
		}
	}
}

// A drain that a PodDisruptionBudget stops half-way, because the pods it let go find no other node,
// fires an alert until the budget allows more.
func TestPrometheusFiresTheAlertOfADrainThatIsStuck(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	p := monitoring.Start(t, s.Project.Path("config", "monitoring", "rules.yaml"))
	if err := p.Scrape(strings.TrimPrefix(crowd.manager.URL, "http://")); err != nil {
		t.Fatal(err)
	}
	d := s.newDrivers(ctx, t, "stuck", soon())
	d.training(ctx, 2, 1, s.nodes[0])
	s.silent(ctx, t, p, "GCUDrainBlocked")
	d.upgrade(ctx, "v2")
	s.eventually(ctx, t, func() error {
		for _, u := range s.upgrades(ctx, t) {
			if op := u.Status.Operation; u.Name == s.nodes[0] && op != nil && op.Reason == operation.ReasonDrainBlocked && strings.Contains(op.Message, "default/"+d.name+"-training") {
				return nil
			}
		}
		return fmt.Errorf("no operation on %s is blocked by the budget", s.nodes[0])
	})
	s.fire(ctx, t, p, "", "GCUDrainBlocked")
	s.kubectl(ctx, t, "delete", "pdb", d.name+"-training")
	d.reaches(ctx, "complete", complete)
	s.silent(ctx, t, p, "GCUDrainBlocked")
	answers(t, p, s.Project.Path("config", "monitoring", "dashboards"), ofOthers)
}

// silent waits until the manager is scraped and an alert does not fire.
func (s *stage) silent(ctx context.Context, t *testing.T, p *monitoring.Server, alert string) {
	t.Helper()
	s.eventually(ctx, t, func() error {
		alerts, err := p.Alerts()
		if err != nil {
			return err
		}
		if n, err := p.Query(`up == 1`); err != nil || n == 0 {
			return errors.Join(errors.New("the manager is not scraped"), err)
		}
		for _, a := range alerts {
			if a.Labels["alertname"] == alert {
				return fmt.Errorf("%s fires: %s", alert, a.Annotations["summary"])
			}
		}
		return nil
	})
}

// Queries that have no data after some rollouts.
var (
	// ofOperations have none where no gr is upgraded, and no node by an operation.
	ofOperations = regexp.MustCompile(`gcu_node_upgrade_(nodes|waiting|oldest|task)|gcu_resource_|evictions|gcu_node_(agent|driver)_`)
	// ofOthers have none without waves, while nothing is in flight or offline, before the REST API is called or a node
	// asks, and without a webhook: TestNotificationsArriveAtLeastOnceWithTheSameID has one.
	ofOthers = regexp.MustCompile(`_wave_|eta_seconds|oldest_|waiting_nodes|gcu_api_|request_wait_seconds_bucket|gcu_notifications_`)
)

// answers runs all queries of the dashboards: none is wrong, and all have data but those that match
// one of without.
func answers(t *testing.T, p *monitoring.Server, folder string, without ...*regexp.Regexp) {
	t.Helper()
	all, err := monitoring.Dashboards(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range all {
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				exempt := slices.ContainsFunc(without, func(r *regexp.Regexp) bool { return r.MatchString(target.Expr) })
				if n, err := p.Query(target.Expr); err != nil || n == 0 && !exempt {
					t.Errorf("%s, %s: %d series of %s (%v)", name, panel.Title, n, target.Expr, err)
				}
			}
		}
	}
}

// fire waits until exactly these alerts fire with a label rollout; with "" they are without one, and
// others may fire too.
func (s *stage) fire(ctx context.Context, t *testing.T, p *monitoring.Server, rollout string, want ...string) {
	t.Helper()
	s.eventually(ctx, t, func() error {
		alerts, err := p.Alerts()
		if err != nil {
			return err
		}
		firing := map[string]bool{}
		for _, a := range alerts {
			if a.Labels["rollout"] == rollout && a.State == "firing" {
				firing[a.Labels["alertname"]] = true
			}
		}
		for _, name := range want {
			if !firing[name] {
				return fmt.Errorf("%s does not fire; firing: %v", name, slices.Sorted(maps.Keys(firing)))
			}
		}
		if rollout != "" && len(firing) > len(want) {
			return fmt.Errorf("more alerts fire than %v: %v", want, slices.Sorted(maps.Keys(firing)))
		}
		return nil
	})
}
