package daemonupdater

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simCall is one request of a reconcile to the API server. It is parked until the world, which
// runs one thing at a time, serves it. So the seed decides the order of parallel requests, and
// what happens between any two.
type simCall struct {
	verb   string
	key    simapi.Key
	effect func() error
	// by is who asks, answer passes the result to it.
	by     *simActor
	answer func(error)
	// delayed: it may take effect long after the client got an error.
	delayed bool
}

// simDryRun is the verb of the dry run of an eviction.
const simDryRun = "dry-run"

func (c *simCall) String() string { return c.verb + " " + c.key.String() }

func (c *simCall) writes() bool { return c.verb != "get" && c.verb != "list" && c.verb != simDryRun }

// simClient is the client of one manager: it reads from the cache and writes to the API server.
// Methods that it does not define are nil and stop the test.
type simClient struct {
	client.Client
	m *simManager
}

// Get reads from the cache.
func (c *simClient) Get(_ context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	c.m.cacheMoves(simapi.KindOf(object))
	err := c.m.cache.Get(key, object, opts...)
	if pass := c.m.pass; pass != nil {
		pass.policyGone = pass.policyGone || (err != nil && simapi.KindOf(object) == simPolicies)
		if simapi.KindOf(object) == simPlans && err != nil {
			pass.plan = nil
		}
	}
	switch {
	case err == nil:
		c.m.saw(object)
	case simapi.KindOf(object) == simNodes:
		delete(c.m.seen.nodes, key.Name)
	case simapi.KindOf(object) == simUpgrades:
		delete(c.m.seen.upgrades, key.Name)
	}
	return err
}

// List reads from the cache, and records for the checks what the pass saw.
func (c *simClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.m.cacheMoves(simapi.KindOf(list))
	if err := c.m.cache.List(list, opts); err != nil {
		return err
	}
	c.m.saw(list)
	if pods, ok := list.(*corev1.PodList); ok {
		index, _ := (&client.ListOptions{}).ApplyOptions(opts).FieldSelector.RequiresExactMatch(controllerUID)
		c.m.sawPods(pods, index)
	}
	return nil
}

// Create is served by the API server.
func (c *simClient) Create(_ context.Context, object client.Object, opts ...client.CreateOption) error {
	pass, validation := c.m.pass, (&client.CreateOptions{}).ApplyOptions(opts).FieldValidation
	return c.m.call("create", simapi.KeyOf(object), func() error {
		if pod, ok := object.(*corev1.Pod); ok {
			return c.m.w.restoreByUs(pass, pod)
		}
		return c.m.w.api.Validated(validation, func() error { return c.m.w.api.Create(object) })
	})
}

// Delete is served by the API server.
func (c *simClient) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	key, pass := simapi.KeyOf(object), c.m.pass
	return c.m.call("delete", key, func() error {
		if options.Preconditions == nil || options.Preconditions.UID == nil {
			c.m.w.violate("S5: %s is deleted without a UID precondition", key)
		}
		if key.Kind == simPods && options.Preconditions.ResourceVersion == nil {
			c.m.w.violate("S5: %s is deleted in whatever version it is", key)
		}
		return c.m.w.deleteByUs(pass, key, options)
	})
}

// Status is the status subresource.
func (c *simClient) Status() client.SubResourceWriter { return &simStatus{m: c.m} }

type simStatus struct {
	client.SubResourceWriter
	m *simManager
}

// Update is served by the API server.
func (s *simStatus) Update(_ context.Context, object client.Object, opts ...client.SubResourceUpdateOption) error {
	key, pass := simapi.KeyOf(object), s.m.pass
	validation := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts).FieldValidation
	return s.m.call("update", key, func() error {
		before, _ := s.m.w.stored(key).(*topsv1.DaemonRollout)
		if err := s.m.w.api.Validated(validation, func() error { return s.m.w.api.Update(object, simapi.Status, "") }); err != nil {
			return err
		}
		if after, ok := s.m.w.api.Objects[key].(*topsv1.DaemonRollout); ok && before != nil {
			s.m.w.overtake(pass)
			s.m.w.settles(pass, before, after)
			s.m.w.checkLedger(pass, before, after)
			s.m.w.sayLedger(pass, before, after)
		}
		return nil
	})
}

// Patch is served by the API server.
func (s *simStatus) Patch(_ context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	validation := (&client.SubResourcePatchOptions{}).ApplyOptions(opts).FieldValidation
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	key, pass := simapi.KeyOf(object), s.m.pass
	return s.m.call("patch", key, func() error {
		before := s.m.w.api.Objects[key]
		if err := s.m.w.api.Validated(validation, func() error { return s.m.w.api.Patch(object, patch.Type(), data, simapi.Status, "") }); err != nil {
			return err
		}
		s.m.w.checkPatch(before, s.m.w.api.Objects[key])
		s.m.w.checkFreed(pass, before, s.m.w.api.Objects[key])
		return nil
	})
}

// simLive reads from the API server.
type simLive struct {
	client.Reader
	m *simManager
}

// Get reads the true state, and records for the checks what the pass saw.
func (l *simLive) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	k, pass := simapi.Named(simapi.KindOf(object), key.Namespace, key.Name), l.m.pass
	return l.m.call("get", k, func() error {
		if lease, ok := object.(*coordinationv1.Lease); ok {
			return l.m.w.host(key.Name).lease(l.m.w, lease)
		}
		stored, ok := l.m.w.api.Objects[k]
		if !ok {
			return apierrors.NewNotFound(simapi.Resource(k), k.Name)
		}
		simapi.Into(object, stored)
		if ds, ok := stored.(*appsv1.DaemonSet); ok && pass != nil {
			pass.live[ds.UID] = l.m.w.liveSet(ds)
		}
		return nil
	})
}

// List reads the true state, and records which targets the pass saw then.
func (l *simLive) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	k, pass := simapi.Key{Kind: simapi.KindOf(list)}, l.m.pass
	return l.m.call("list", k, func() error {
		if k.Kind != simPods {
			for uid, seen := range pass.live {
				pass.live[uid] = l.m.w.liveSet(seen.ds)
			}
		}
		return l.m.w.api.Live(simLiveIndexers).List(list, opts)
	})
}

// liveSet returns what is true of a DaemonSet now.
func (w *simWorld) liveSet(ds *appsv1.DaemonSet) simLiveSet {
	return simLiveSet{ds, w.newestHash(ds), w.revisionsOf(ds)}
}

// call parks a request until the world has served it.
func (m *simManager) call(verb string, key simapi.Key, effect func() error) error {
	reply := make(chan error)
	c := &simCall{verb: verb, key: key, effect: effect, by: &m.pass.simActor, answer: func(err error) { reply <- err }, delayed: verb == "delete"}
	m.mu.Lock()
	if m.pass.seen.nodes == nil && c.writes() && key.Kind != simJobs { // Jobs are created before the nodes are read
		m.pass.seen = m.seen.clone()
	}
	m.parked = append(m.parked, c)
	m.mu.Unlock()
	return <-reply
}

// Faults of one call; noFault serves it normally.
const (
	noFault = iota
	faultConflict
	faultTooMany
	faultInternal
	faultTimeout
	// faultAmbiguous: the request takes effect, and the client gets an error.
	faultAmbiguous
	// faultLate: the client gets an error now, and the request takes effect later.
	faultLate
	faultOutage
	// faultDenied: an admission webhook denies it.
	faultDenied
)

var errReset = errors.New("read tcp: connection reset by peer")

// serve serves one call, with or without a fault.
func (w *simWorld) serve(m *simManager, c *simCall) {
	if c.by.dead {
		c.answer(context.Canceled)
		return
	}
	fault := w.faultFor(c)
	err := w.failure(fault, c)
	switch fault {
	case noFault:
		err = c.effect()
	case faultAmbiguous:
		_ = c.effect() // the client does not learn the result
	case faultLate:
		restores := w.restores
		w.later(w.seconds(1, 30), func() {
			if w.restores == restores { // the API server that had it was stopped
				_ = c.effect()
			}
		})
	}
	w.say("%s: %s -> %v", m.name, c, err)
	if c.writes() {
		if w.killsNow() {
			w.say("%s is killed", m.name)
			c.by.dead = true
		}
	}
	c.answer(err)
}

// failure returns what the client gets of a fault.
func (w *simWorld) failure(fault int, c *simCall) error {
	switch fault {
	case faultOutage, faultAmbiguous:
		return fmt.Errorf("%s: %w", c, errReset)
	case faultDenied:
		return apierrors.NewForbidden(simapi.Resource(c.key), c.key.Name, errors.New("denied by the webhook of the test"))
	case faultConflict:
		return simapi.Conflict(c.key, "the object has been modified")
	case faultTooMany:
		return apierrors.NewTooManyRequests("slow down", 1)
	case faultInternal:
		return apierrors.NewInternalError(errors.New("etcd is away"))
	case faultTimeout, faultLate:
		return apierrors.NewTimeoutError("the server was unable to return a response in time", 1)
	}
	return nil
}

// killsNow counts a write, and reports whether the manager is killed after it.
func (w *simWorld) killsNow() bool {
	w.writes++
	return w.writes == w.crashAfter
}

func (w *simWorld) faultFor(c *simCall) int {
	switch {
	case w.outage:
		return faultOutage
	case w.refused != nil && w.refused(c):
		return faultDenied
	}
	if w.calm || !w.chance(w.knobs.faults) {
		return noFault
	}
	if c.delayed && w.knobs.late && w.chance(10) {
		return faultLate
	}
	switch c.verb {
	case "get", "list", simDryRun:
		return faultTooMany + w.rng.IntN(faultTimeout-faultTooMany+1)
	case "delete", "evict":
		if w.chance(6) {
			return faultDenied
		}
		return faultTooMany + w.rng.IntN(faultAmbiguous-faultTooMany+1)
	}
	return faultConflict + w.rng.IntN(faultAmbiguous-faultConflict+1)
}

func simPreconditions(options *client.DeleteOptions) *metav1.Preconditions {
	return options.AsDeleteOptions().Preconditions
}
