package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/test/harness"
	"github.com/topsops/gcu-operator/test/monitoring"
)

// A Prometheus that scrapes the manager fires the alerts of the shipped rules when they must fire, and
// none about a rollout that is well.
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
		ds.Spec.Template.Labels[harness.BehaviorLabel] = "crash-loop"
	})
	bad.reaches(ctx, "halted", func(st *topsv1.DaemonRolloutStatus) bool { return st.FailedNodes > 0 })
	s.fire(ctx, t, p, "default/"+bad.name, "GCURolloutHalted", "GCURolloutNodesFailed")
	good.complete(ctx, "app:2", stageNodes)
	s.fire(ctx, t, p, "default/"+good.name)
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
// fires an alert until the budget allows more. Until the end every query of the dashboards has had data.
func TestPrometheusFiresTheAlertOfADrainThatIsStuck(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	p := monitoring.Start(t, s.Project.Path("config", "monitoring", "rules.yaml"))
	if err := p.Scrape(strings.TrimPrefix(crowd.manager.URL, "http://")); err != nil {
		t.Fatal(err)
	}
	policy := soon()
	policy.Waves = []topsv1.Wave{{Name: "all", Size: ptr.To(intstr.FromString("100%"))}}
	d := s.newDrivers(ctx, t, "stuck", policy)
	d.training(ctx, 2, 1, s.nodes[0])
	s.silent(ctx, t, p, "GCUDrainBlocked")
	s.granted(ctx, t, p, s.nodes[1])
	s.plane.shell(ctx, t, "curl http://<node-ip>:32765/gum/v1/gr/"+d.name+"/rollout")
	skipped := s.nodes[stageNodes-1]
	if _, err := s.NodesOff(ctx, skipped); err != nil {
		t.Fatal(err)
	}
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
	queries := queriesOf(t, s.Project.Path("config", "monitoring", "dashboards"))
	if err := queries.ask(p); err != nil {
		t.Log("while the drain is stuck there is", err)
	}
	s.kubectl(ctx, t, "delete", "pdb", d.name+"-training")
	s.eventually(ctx, t, func() error { return queries.ask(p) })
	if _, err := s.NodesOn(ctx, skipped); err != nil {
		t.Fatal(err)
	}
	d.reaches(ctx, "complete", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes })
	s.silent(ctx, t, p, "GCUDrainBlocked")
}

// granted has a request granted that a node makes, after Prometheus has seen that there was none.
func (s *stage) granted(ctx context.Context, t *testing.T, p *monitoring.Server, node string) {
	t.Helper()
	f := newDaemonSet(ctx, t, s, "asked", ota())
	f.setImage(ctx, "app:2")
	f.allHave(ctx, corev1.ConditionTrue)
	s.eventually(ctx, t, func() error {
		n, err := p.Query(fmt.Sprintf("gcu_rollout_request_wait_seconds_count{rollout=%q} == 0", "default/"+f.name))
		if err == nil && n == 0 {
			err = fmt.Errorf("the requests of %s are not counted", f.name)
		}
		return err
	})
	url := s.agents.Of(node).URL + "/openyurt.io/v1/namespaces/default/pods/" + f.on(ctx, node).Name + "/upgrade"
	if code, text := post(ctx, t, url); code != http.StatusOK {
		t.Fatalf("POST answers %d %q", code, text)
	}
	s.taskReaches(ctx, f, node, topsv1.TaskDone, "Replaced")
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

// queries are those of the dashboards that have had no data yet, with where they are.
type queries map[string]string

// queriesOf returns all queries of the dashboards in a folder, but those about notifications, which a manager has only with a
// webhook: TestNotificationsArriveAtLeastOnceWithTheSameID sees their data.
func queriesOf(t *testing.T, folder string) queries {
	t.Helper()
	all, err := monitoring.Dashboards(folder)
	if err != nil {
		t.Fatal(err)
	}
	q := queries{}
	for name, d := range all {
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				if !strings.Contains(target.Expr, notifications) {
					q[target.Expr] = name + ", " + panel.Title
				}
			}
		}
	}
	return q
}

// ask asks Prometheus, and forgets the queries that have data now. It returns an error that lists those that are left.
func (q queries) ask(p *monitoring.Server) error {
	var left []string
	for expr, where := range q {
		n, err := p.Query(expr)
		if err != nil {
			return harness.Final(fmt.Errorf("%s: %s: %w", where, expr, err))
		}
		if n > 0 {
			delete(q, expr)
			continue
		}
		left = append(left, where+": "+expr)
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	return fmt.Errorf("no data yet of\n%s", strings.Join(left, "\n"))
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
