package daemonupdater

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
)

func underOTA(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationUpdateStrategy, "OTA") }

// TestARequestIsDoneAfterALiveRead: a manager with a stale cache sees the pod or the
// revision before the requested one.
func TestARequestIsDoneAfterALiveRead(t *testing.T) {
	tests := []struct {
		name   string
		asked  *corev1.Pod                   // named by the request
		behind func(*cluster, *corev1.Pod)   // makes the cache stale
		shows  func(*cluster, client.Object) // ends that
	}{
		{
			"not while the pod it names is there", fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.OldHash),
			func(c *cluster, asked *corev1.Pod) {
				asked.UID = "after"
				c.live(interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
					if pod, ok := object.(*corev1.Pod); ok {
						asked.DeepCopyInto(pod)
						return nil
					}
					return w.Get(ctx, key, object, opts...)
				}})
			},
			func(c *cluster, _ client.Object) { c.reconciler.Live = c.api },
		},
		{
			"not while there is a newer revision", fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.NewHash),
			func(c *cluster, asked *corev1.Pod) {
				if err := c.api.Delete(context.Background(), fixture.PodOn(c.driver, "a", fixture.OldHash)); err != nil {
					c.t.Fatal(err)
				}
				c.create(asked.DeepCopy())
				third := newest(c.driver, "third")
				c.staleRevision = third.Name
				c.create(third)
			},
			func(c *cluster, third client.Object) {
				if err := c.api.Delete(context.Background(), third); err != nil {
					c.t.Fatal(err)
				}
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, underOTA)
			tt.behind(c, tt.asked)
			c.create(fixture.NodeUpgrade("a", fixture.Request("1", c.driver, tt.asked)))
			if after := c.mustReconcile(); after != retryStaleCache || c.answered("a") != "" {
				t.Errorf("state %q, decides again after %s, want no answer and %s", c.answered("a"), after, retryStaleCache)
			}
			tt.shows(c, newest(c.driver, "third"))
			c.mustReconcile()
			if got := c.answered("a"); got != topsv1.TaskDone {
				t.Errorf("state %q, want %s", got, topsv1.TaskDone)
			}
		})
	}
}

// TestARequestIsDoneThoughAFinalizerKeepsItsPod: its containers have ended, and its successor is available.
func TestARequestIsDoneThoughAFinalizerKeepsItsPod(t *testing.T) {
	c := newCluster(t, underOTA)
	kept := fixture.PodOn(c.driver, "a", fixture.OldHash)
	kept.Name, kept.UID = "kept", "kept"
	kept.Finalizers, kept.Status.Phase = []string{"example.com/keep"}, corev1.PodSucceeded
	c.create(kept.DeepCopy())
	c.create(fixture.NodeUpgrade("a", fixture.Request("1", c.driver, kept)))
	if err := c.api.Delete(context.Background(), kept); err != nil {
		t.Fatal(err)
	}
	c.mustReconcile()
	if got := c.answered("a"); got != topsv1.TaskDone {
		t.Errorf("state %q, want %s", got, topsv1.TaskDone)
	}
}

// TestARevisionHasChangedAfterALiveRead: a manager with a stale cache takes the revision
// before the requested one for the newest.
func TestARevisionHasChangedAfterALiveRead(t *testing.T) {
	c := newCluster(t, underOTA)
	third := newest(c.driver, "third")
	c.staleRevision = third.Name
	c.create(third)
	request := fixture.Request("1", c.driver, fixture.PodOn(c.driver, "a", fixture.OldHash))
	request.Revision = "third"
	c.create(fixture.NodeUpgrade("a", request))
	if after := c.mustReconcile(); after != retryStaleCache || c.answered("a") != "" {
		t.Errorf("state %q, decides again after %s, want no answer and %s", c.answered("a"), after, retryStaleCache)
	}
	if err := c.api.Delete(context.Background(), third); err != nil {
		t.Fatal(err)
	}
	c.mustReconcile()
	if got := c.answered("a"); got != topsv1.TaskFailed {
		t.Errorf("state %q, want %s", got, topsv1.TaskFailed)
	}
}

// TestAnAnswerFollowsWhatTheAgentWrites: the report that the agent writes every minute causes no
// event, so the kept NodeUpgrade may be old.
func TestAnAnswerFollowsWhatTheAgentWrites(t *testing.T) {
	c := newCluster(t, underOTA)
	c.create(fixture.NodeUpgrade("a", fixture.Request("1", c.driver, fixture.PodOn(c.driver, "a", fixture.OldHash))))
	c.mustReconcile()
	group := observed.GroupOf(c.driver)
	var u topsv1.NodeUpgrade
	if err := c.api.Get(context.Background(), client.ObjectKey{Name: "a"}, &u); err != nil {
		t.Fatal(err)
	}
	u.Status.Tasks, u.Status.Host = nil, &topsv1.HostReport{Time: fixture.Ago(0)}
	if err := c.api.Status().Update(context.Background(), &u); err != nil {
		t.Fatal(err)
	}
	c.reconciler.fleets[group].Reported.Asking()[0].Status.Tasks = nil
	for range 2 {
		if _, err := c.reconciler.Reconcile(context.Background(), group); err != nil {
			t.Fatal(err)
		}
	}
	if c.answered("a") == "" {
		t.Error("the request has no answer after the conflict with what the agent wrote")
	}
}

// answered returns the state of the first task of a node, "" if there is none.
func (c *cluster) answered(node string) topsv1.TaskState {
	c.t.Helper()
	var u topsv1.NodeUpgrade
	if err := c.api.Get(context.Background(), client.ObjectKey{Name: node}, &u); err != nil {
		c.t.Fatal(err)
	}
	if len(u.Status.Tasks) == 0 {
		return ""
	}
	return u.Status.Tasks[0].State
}
