package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcucli/dashboard"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

func dashboardCommand(c *cli) *cobra.Command {
	var port uint16
	command := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve the fleet on one page, on this machine",
		Long: `Serve a page with the state of all grs: the nodes by zone, what waits for what and what
to do, the waves, and for each node its tasks, requests and events. It is updated while
the cluster changes. Buttons do what kubectl gcu pause, resume, approve, rollback, hold,
release and task retry do, after asking; those that you may not use are not shown.

It listens on 127.0.0.1 only, works with your kubeconfig, and needs the address that it
prints, which has a token. Ctrl-C ends it. It requires list and watch on what it shows.`,
		Example: `  # Serve it, and open the printed address in a browser
  kubectl gcu dashboard

  # On a fixed port, for example to forward it with ssh
  kubectl gcu dashboard --port 8090`,
		Args: cobra.NoArgs,
		RunE: c.onCluster(func(ctx context.Context, cl *cluster, _ []string) error {
			return serveDashboard(ctx, c.terminal, cl, port)
		}),
	}
	command.Flags().Uint16Var(&port, "port", 0, "port on 127.0.0.1; 0: any that is free")
	return command
}

func serveDashboard(ctx context.Context, out terminal, cl *cluster, port uint16) error {
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // a third less memory for a large fleet
	source, err := newSource(ctx, cl)
	if err != nil {
		return err
	}
	bound := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", bound.String())
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	page := dashboard.New(source, bound.Addr(), clock.RealClock{})
	go page.Run(ctx)
	server := &http.Server{Handler: page.Handler(), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	out.say("http://%s%s", listener.Addr(), page.Path())
	out.say("open this address in a browser on this machine; Ctrl-C ends it")
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page: %w", err)
	}
	return nil
}

// source reads the cluster from caches, and writes to it as the commands do.
type source struct {
	// cached reads from the caches, live from the API server.
	cached, live *cluster
	changed      chan struct{}
	watches      watches
}

// shown are the kinds of the page.
var shown = []struct {
	object          client.Object
	group, resource string
}{
	{&topsv1.GcuResource{}, topsv1.GroupVersion.Group, "gcuresources"},
	{&topsv1.DaemonRollout{}, topsv1.GroupVersion.Group, "daemonrollouts"},
	{&topsv1.NodeUpgrade{}, topsv1.GroupVersion.Group, "nodeupgrades"},
	{&topsv1.UpgradePlan{}, topsv1.GroupVersion.Group, "upgradeplans"},
	{&topsv1.UpgradePolicy{}, topsv1.GroupVersion.Group, "upgradepolicies"},
	{&corev1.Node{}, "", "nodes"},
	{&corev1.Pod{}, "", "pods"},
	{&appsv1.DaemonSet{}, "apps", "daemonsets"},
	{&appsv1.ControllerRevision{}, "apps", "controllerrevisions"},
}

// newSource fills the caches.
func newSource(ctx context.Context, cl *cluster) (*source, error) {
	s := &source{live: cl, changed: make(chan struct{}, 1)}
	s.watches = watches{changed: s.changed, open: map[string]*watched{}}
	config := rest.CopyConfig(cl.config)
	config.Wrap(s.watches.around)
	ofGrs, err := cache.New(config, cache.Options{Scheme: cl.Scheme(), Mapper: cl.RESTMapper(), DefaultTransform: trimmed,
		DefaultUnsafeDisableDeepCopy: ptr.To(true)}) // nothing here changes what it reads, and a fleet is read at each change
	if err != nil {
		return nil, fmt.Errorf("watching the cluster: %w", err)
	}
	for _, kind := range shown {
		if err := s.mayWatch(ctx, kind.group, kind.resource); err != nil {
			return nil, err
		}
		informer, err := ofGrs.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", kind.resource, err)
		}
		changed := func(any) { notify(s.changed) }
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(_, _ any) { notify(s.changed) }}); err != nil {
			return nil, fmt.Errorf("watching %s: %w", kind.resource, err)
		}
		s.watches.resources = append(s.watches.resources, kind.resource)
	}
	go func() { _ = ofGrs.Start(ctx) }() // returns when ctx is done
	if !ofGrs.WaitForCacheSync(ctx) {
		return nil, context.Cause(ctx)
	}
	// Where lists are not part of watches, these begin after them. Reach names the watches that have not begun.
	_ = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 5*time.Second, true, func(context.Context) (bool, error) { return s.watches.behind() == nil, nil })
	reader, err := client.New(cl.config, client.Options{Scheme: cl.Scheme(), Mapper: cl.RESTMapper(), Cache: &client.CacheOptions{Reader: ofGrs}})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", cl.config.Host, err)
	}
	s.cached = &cluster{Client: reader, config: cl.config, namespace: cl.namespace}
	return s, nil
}

// trimmed drops what the page does not need, so that large fleets fit into memory.
func trimmed(o any) (any, error) {
	object, ok := o.(client.Object)
	if !ok {
		return o, nil
	}
	object.SetManagedFields(nil)
	switch object := object.(type) {
	case *corev1.Pod:
		if daemonset.Owner(object) == nil { // no pod of a component
			object.Labels, object.Annotations, object.Status = nil, nil, corev1.PodStatus{}
		}
		affinity := object.Spec.Affinity
		if object.Spec.NodeName != "" {
			affinity = nil // only names the node of a pod that is not scheduled yet
		}
		object.Spec = corev1.PodSpec{NodeName: object.Spec.NodeName, Affinity: affinity, Containers: namingCards(object), SchedulingGates: object.Spec.SchedulingGates}
	case *corev1.Node:
		object.Status = corev1.NodeStatus{Conditions: object.Status.Conditions, Allocatable: object.Status.Allocatable}
	}
	return o, nil
}

// namingCards returns what is read of the containers of a DaemonSet's pod: the variable by which a device plugin offers cards
// under further names. Of other pods, and of containers without it, it returns nothing.
func namingCards(pod *corev1.Pod) (naming []corev1.Container) {
	if daemonset.Owner(pod) == nil {
		return nil
	}
	for i := range pod.Spec.Containers {
		for _, v := range pod.Spec.Containers[i].Env {
			if v.Name == daemonset.VariableOfResources {
				naming = append(naming, corev1.Container{Env: []corev1.EnvVar{{Name: v.Name, Value: v.Value}}})
			}
		}
	}
	return naming
}

// Changed implements dashboard.Source.
func (s *source) Changed() <-chan struct{} { return s.changed }

// allowed asks the API server whether the user may do something with a resource.
func (s *source) allowed(ctx context.Context, group, resource, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Verb: verb}}}
	err := s.live.Create(ctx, review)
	return review.Status.Allowed, err
}

func (s *source) mayWatch(ctx context.Context, group, resource string) error {
	for _, verb := range []string{"list", "watch"} {
		allowed, err := s.allowed(ctx, group, resource, verb)
		if err != nil {
			return fmt.Errorf("asking for your rights: %w", err)
		}
		if !allowed {
			return &failure{exitForbidden, fmt.Errorf("missing permission: %s %s cluster-wide; kubectl gcu status shows what you may read", verb, strings.TrimSuffix(resource+"."+group, "."))}
		}
	}
	return nil
}

// Reach implements dashboard.Source. It checks a right without which there is nothing to show, and whether
// all watches run.
func (s *source) Reach(ctx context.Context) error {
	if err := s.mayWatch(ctx, topsv1.GroupVersion.Group, "gcuresources"); err != nil {
		return err
	}
	return s.watches.behind()
}

// Read implements dashboard.Source.
func (s *source) Read(ctx context.Context) ([]dashboard.Resource, error) {
	var list topsv1.GcuResourceList
	if err := s.cached.all(ctx, "", &list); err != nil {
		return nil, err
	}
	resources := make([]dashboard.Resource, 0, len(list.Items))
	for i := range list.Items {
		r, err := s.readResource(ctx, &list.Items[i])
		if err != nil {
			return nil, err
		}
		resources = append(resources, r)
	}
	slices.SortFunc(resources, func(a, b dashboard.Resource) int { return cmp.Compare(a.Status.Name, b.Status.Name) })
	return resources, nil
}

func (s *source) readResource(ctx context.Context, gr *topsv1.GcuResource) (dashboard.Resource, error) {
	fleet, err := readFleet(ctx, s.cached, gr)
	if err != nil {
		return dashboard.Resource{}, err
	}
	var notShown []string
	deployed := asDeployed(ctx, s.cached, gr, fleet.Rollout, &notShown)
	r := dashboard.Resource{Status: display.StatusOf(deployed, fleet.Rollout, fleet.NodeUpgrades, notShown, fleet.Now), Nodes: display.NodesOf(fleet), Zones: map[string]string{}}
	if err := s.cached.noteUnseen(ctx, gr, fleet.Rollout, &r.Status); err != nil {
		return dashboard.Resource{}, err
	}
	labels := labelsOf(fleet, r.Nodes)
	for name, of := range labels {
		r.Zones[name] = of[corev1.LabelTopologyZone]
	}
	return r, s.readWaves(ctx, gr, fleet, labels, &r)
}

// readWaves adds the waves, the maintenance window and the plan of a gr. labels are those of its nodes.
func (s *source) readWaves(ctx context.Context, gr *topsv1.GcuResource, fleet *display.Fleet, labels map[string]map[string]string, r *dashboard.Resource) error {
	if fleet.Rollout == nil || gr.Annotations[topsv1.AnnotationUpgradePolicy] == "" && gr.Annotations[topsv1.AnnotationUpgradePlan] == "" {
		return nil
	}
	g, err := readApprovalSources(ctx, s.cached, gr)
	if err != nil {
		return denial.IgnoreNotFound(err)
	}
	r.Waves = display.WavesOf(fleet.Rollout, g.policy, g.plan, fleet.Now)
	r.Status.Rollout.Windows = display.WindowsOf(fleet.Rollout, g.policy, labels, fleet.Now)
	if g.policy != nil && len(g.policy.Spec.Waves) > 0 {
		if waves, err := observed.Divide(&g.policy.Spec, labels); err == nil { // else the rollout says what is wrong with the policy
			r.Wave = waves
		}
	}
	if g.plan != nil && g.plan.Spec.GcuResource == gr.Name {
		r.Plan, r.Result = g.plan, planfile.ResultOf(gr, g.plan, true)
	}
	return nil
}

// Detail implements dashboard.Source.
func (s *source) Detail(ctx context.Context, node string) (dashboard.Detail, error) {
	upgrade := &topsv1.NodeUpgrade{}
	if err := s.cached.read(ctx, "", node, upgrade); apierrors.IsNotFound(err) {
		return dashboard.Detail{}, nil
	} else if err != nil {
		return dashboard.Detail{}, err
	}
	d := dashboard.Detail{Upgrade: upgrade}
	var events corev1.EventList
	err := s.live.all(ctx, metav1.NamespaceDefault, &events, client.MatchingFields{"involvedObject.kind": "NodeUpgrade", "involvedObject.name": node})
	for i := range events.Items {
		e := &events.Items[i]
		at := e.LastTimestamp.Time
		if at.IsZero() {
			at = e.EventTime.Time
		}
		d.Events = append(d.Events, dashboard.Event{Time: at.UTC().Format(dashboard.SecondsLayout), Reason: e.Reason, Message: e.Message})
	}
	var notShown []string
	return d, leaveOut(&notShown, "events", err)
}
