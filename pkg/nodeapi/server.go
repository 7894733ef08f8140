package nodeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	// A POST to the node's endpoint takes three reads and one write; these limits bound
	// what a caller in a loop on one node can do to the API server.
	requestsPerSecond = 50
	requestBurst      = 200
)

// Server is the API server of a rest.Config. It supports three API groups, and its reads
// are live. Errors are those of k8s.io/apimachinery/pkg/api/errors.
type Server struct {
	core *rest.RESTClient
	apps *rest.RESTClient
	tops *rest.RESTClient
	// undeclared are the fields that the CRD of NodeUpgrades lacks.
	undeclared undeclared
	clock      clock.PassiveClock
	log        logr.Logger
}

// New returns the API server of config, without connecting. It returns an error if config
// is invalid.
func New(config *rest.Config, userAgent string, clock clock.PassiveClock, log logr.Logger) (*Server, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, topsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering the types: %w", err)
		}
	}
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	config.QPS = requestsPerSecond
	config.Burst = requestBurst
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to the API server: %w", err)
	}
	client := func(group schema.GroupVersion, path string) (*rest.RESTClient, error) {
		c := rest.CopyConfig(config)
		c.GroupVersion = &group
		c.APIPath = path
		return rest.RESTClientForConfigAndClient(c, httpClient)
	}
	core, err := client(corev1.SchemeGroupVersion, "/api")
	if err != nil {
		return nil, fmt.Errorf("preparing the client for core/v1: %w", err)
	}
	apps, err := client(appsv1.SchemeGroupVersion, "/apis")
	if err != nil {
		return nil, fmt.Errorf("preparing the client for apps/v1: %w", err)
	}
	tops, err := client(topsv1.GroupVersion, "/apis")
	if err != nil {
		return nil, fmt.Errorf("preparing the client for %s: %w", topsv1.GroupVersion, err)
	}
	return &Server{core: core, apps: apps, tops: tops, clock: clock, log: log}, nil
}

// Pod returns one pod.
func (s *Server) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, s.core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
}

// Pods returns the pods bound to a node that have not ended. Those that have may be thousands, and none is upgraded: the
// DaemonSet controller replaces one that ends.
func (s *Server) Pods(ctx context.Context, node string) (*corev1.PodList, error) {
	pods := &corev1.PodList{}
	selected := fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", node),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)))
	return pods, s.core.Get().Resource("pods").Param("fieldSelector", selected.String()).Do(ctx).Into(pods)
}

// Node returns a node.
func (s *Server) Node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, s.core.Get().Resource("nodes").Name(name).Do(ctx).Into(node)
}

// DaemonSet returns a DaemonSet.
func (s *Server) DaemonSet(ctx context.Context, namespace, name string) (*appsv1.DaemonSet, error) {
	ds := &appsv1.DaemonSet{}
	return ds, s.apps.Get().Namespace(namespace).Resource("daemonsets").Name(name).Do(ctx).Into(ds)
}

// ControllerRevision returns a ControllerRevision.
func (s *Server) ControllerRevision(ctx context.Context, namespace, name string) (*appsv1.ControllerRevision, error) {
	revision := &appsv1.ControllerRevision{}
	return revision, s.apps.Get().Namespace(namespace).Resource("controllerrevisions").Name(name).Do(ctx).Into(revision)
}

// NodeUpgrade returns the NodeUpgrade of a node.
func (s *Server) NodeUpgrade(ctx context.Context, node string) (*topsv1.NodeUpgrade, error) {
	nodeUpgrade := &topsv1.NodeUpgrade{}
	return nodeUpgrade, s.tops.Get().Resource("nodeupgrades").Name(node).Do(ctx).Into(nodeUpgrade)
}

// CreateNodeUpgrade creates a NodeUpgrade as manager and returns it as created.
func (s *Server) CreateNodeUpgrade(ctx context.Context, manager string, nodeUpgrade *topsv1.NodeUpgrade) (*topsv1.NodeUpgrade, error) {
	created := &topsv1.NodeUpgrade{}
	return created, s.tops.Post().Resource("nodeupgrades").Param("fieldManager", manager).Body(nodeUpgrade).Do(ctx).Into(created)
}

// Secret returns a Secret.
func (s *Server) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, s.core.Get().Namespace(namespace).Resource("secrets").Name(name).Do(ctx).Into(secret)
}

// ApplyStatus applies name, UID and status of a NodeUpgrade server-side as manager: fields
// that manager owns and the status lacks are removed. A NodeUpgrade with another UID is a
// conflict. An API server with an older CRD refuses all of a status that has a field which the CRD lacks: such fields are left out.
func (s *Server) ApplyStatus(ctx context.Context, manager string, nodeUpgrade *topsv1.NodeUpgrade) error {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&nodeUpgrade.Status)
	if err != nil {
		return fmt.Errorf("encoding NodeUpgrade %s: %w", nodeUpgrade.Name, err)
	}
	configuration := map[string]any{
		"apiVersion": topsv1.GroupVersion.String(),
		"kind":       "NodeUpgrade",
		"metadata":   map[string]any{"name": nodeUpgrade.Name, "uid": nodeUpgrade.UID},
		"status":     status,
	}
	for _, path := range s.undeclared.at(s.clock.Now()) {
		without(configuration, path)
	}
	for {
		refused := s.apply(ctx, manager, nodeUpgrade.Name, configuration)
		fields := slices.DeleteFunc(undeclaredIn(refused), func(path string) bool { return !without(configuration, path) })
		if len(fields) == 0 {
			return refused
		}
		s.log.Info("The CRD of NodeUpgrades is older than this agent: leaving out what it lacks", "NodeUpgrade", nodeUpgrade.Name, "fields", fields)
		s.undeclared.add(s.clock.Now(), fields)
	}
}

func (s *Server) apply(ctx context.Context, manager, name string, configuration map[string]any) error {
	body, err := json.Marshal(configuration)
	if err != nil {
		return fmt.Errorf("encoding NodeUpgrade %s: %w", name, err)
	}
	return s.tops.Patch(types.ApplyPatchType).Resource("nodeupgrades").Name(name).SubResource("status").
		Param("fieldManager", manager).Param("force", "true").Body(body).Do(ctx).Error()
}
