//go:build install

package chart

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// kinds are those that follow a rollout.
var kinds = []string{topsv1.GcuResourceKind, "DaemonRollout"}

// follower looks at every state of the gr and of its DaemonRollout during one rollout, as Flux and Helm 4 do.
type follower struct {
	*site
	// revisions are those of the objects before the rollout, and pods those that it replaces or removes.
	revisions map[string]string
	pods      map[string]string
	stop      func()

	mutex sync.Mutex
	// seen counts the states by kind and status.
	seen map[string]int
}

// follow starts a follower for a rollout of a component that begins thereafter.
func (s *site) follow(component string) *follower {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	f := &follower{site: s, revisions: map[string]string{}, seen: map[string]int{}, pods: s.pods()}
	maps.DeleteFunc(f.pods, func(name, _ string) bool { return !strings.HasPrefix(name, component+"-") })
	watching, err := client.NewWithWatch(s.Config, client.Options{})
	check(s.t, err)
	var all sync.WaitGroup
	for _, kind := range kinds {
		object, list := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
		object.SetGroupVersionKind(topsv1.GroupVersion.WithKind(kind))
		list.SetGroupVersionKind(topsv1.GroupVersion.WithKind(kind + "List"))
		key := client.ObjectKey{Name: grName}
		if kind != topsv1.GcuResourceKind {
			key.Namespace = "kube-system"
		}
		check(s.t, s.Client.Get(s.ctx, key, object))
		f.revisions[kind] = revisionOf(object)
		events, err := watching.Watch(ctx, list, client.MatchingFields{"metadata.name": grName})
		check(s.t, err)
		all.Go(func() {
			for e := range events.ResultChan() {
				f.look(e)
			}
		})
	}
	f.stop = func() { cancel(); all.Wait() }
	return f
}

// revisionOf returns what changes when a rollout begins.
func revisionOf(object *unstructured.Unstructured) string {
	if object.GetKind() == topsv1.GcuResourceKind {
		return fmt.Sprint(object.GetGeneration())
	}
	revision, _, _ := unstructured.NestedString(object.Object, "status", "revision")
	return revision
}

// look computes the status of one state, which may not be Current while a pod of before is there: a
// pod that is there now was there when that state was written.
func (f *follower) look(e watch.Event) {
	object, ok := e.Object.(*unstructured.Unstructured)
	if !ok || revisionOf(object) == f.revisions[object.GetKind()] {
		return
	}
	seen, err := kstatus.Compute(object)
	if err != nil {
		f.t.Error(err)
		return
	}
	f.mutex.Lock()
	f.seen[object.GetKind()+" "+seen.Status.String()]++
	f.mutex.Unlock()
	if seen.Status != kstatus.CurrentStatus {
		return
	}
	for name, uid := range f.site.pods() {
		if f.pods[name] == uid {
			f.t.Errorf("%s: seen as current while %s is to be replaced: %s", object.GetKind(), name, seen.Message)
		}
	}
}

// finish waits until both objects were seen so, and stops.
func (f *follower) finish(status kstatus.Status) {
	f.t.Helper()
	defer f.stop()
	f.eventually("gr and DaemonRollout were seen as "+status.String(), func() error {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		for _, kind := range kinds {
			if f.seen[kind+" "+status.String()] == 0 || f.seen[kind+" InProgress"] == 0 {
				return fmt.Errorf("%s was not, or never as in progress: %v", kind, f.seen)
			}
		}
		return nil
	})
}
