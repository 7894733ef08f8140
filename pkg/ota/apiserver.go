package ota

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const (
	// A POST costs three reads and one write; these bound what a caller in a
	// loop on one node can do to the API server.
	requestsPerSecond = 50
	requestBurst      = 200
)

// apiServer is the Cluster behind a rest.Config. It knows two API groups and
// keeps no cache, so that it stays small.
type apiServer struct {
	core *rest.RESTClient
	tops *rest.RESTClient
}

// NewAPIServer returns the Cluster that config leads to. It does not connect.
// It returns an error when config is not usable.
func NewAPIServer(config *rest.Config, userAgent string) (Cluster, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering core/v1: %w", err)
	}
	if err := topsv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering %s: %w", topsv1.GroupVersion, err)
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
	tops, err := client(topsv1.GroupVersion, "/apis")
	if err != nil {
		return nil, fmt.Errorf("preparing the client for %s: %w", topsv1.GroupVersion, err)
	}
	return &apiServer{core: core, tops: tops}, nil
}

// Pod implements Cluster.
func (s *apiServer) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, s.core.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
}

// Pods implements Cluster.
func (s *apiServer) Pods(ctx context.Context, node string) (*corev1.PodList, error) {
	pods := &corev1.PodList{}
	onNode := fields.OneTermEqualSelector("spec.nodeName", node).String()
	return pods, s.core.Get().Resource("pods").Param("fieldSelector", onNode).Do(ctx).Into(pods)
}

// Node implements Cluster.
func (s *apiServer) Node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, s.core.Get().Resource("nodes").Name(name).Do(ctx).Into(node)
}

// NodeUpgrade implements Cluster.
func (s *apiServer) NodeUpgrade(ctx context.Context, node string) (*topsv1.NodeUpgrade, error) {
	nodeUpgrade := &topsv1.NodeUpgrade{}
	return nodeUpgrade, s.tops.Get().Resource("nodeupgrades").Name(node).Do(ctx).Into(nodeUpgrade)
}

// CreateNodeUpgrade implements Cluster.
func (s *apiServer) CreateNodeUpgrade(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade) (*topsv1.NodeUpgrade, error) {
	created := &topsv1.NodeUpgrade{}
	return created, s.tops.Post().Resource("nodeupgrades").Param("fieldManager", FieldManager).Body(nodeUpgrade).Do(ctx).Into(created)
}

// ApplyStatus implements Cluster. It sends nothing but what the agent owns.
func (s *apiServer) ApplyStatus(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade) error {
	configuration := map[string]any{
		"apiVersion": topsv1.GroupVersion.String(),
		"kind":       "NodeUpgrade",
		"metadata":   map[string]any{"name": nodeUpgrade.Name, "uid": nodeUpgrade.UID},
		"status":     nodeUpgrade.Status,
	}
	body, err := json.Marshal(configuration)
	if err != nil {
		return fmt.Errorf("encoding NodeUpgrade %s: %w", nodeUpgrade.Name, err)
	}
	return s.tops.Patch(types.ApplyPatchType).Resource("nodeupgrades").Name(nodeUpgrade.Name).SubResource("status").
		Param("fieldManager", FieldManager).Param("force", "true").Body(body).Do(ctx).Error()
}

// WatchNodeUpgrade implements Cluster.
func (s *apiServer) WatchNodeUpgrade(ctx context.Context, node, resourceVersion string) (watch.Interface, error) {
	named := fields.OneTermEqualSelector("metadata.name", node).String()
	return s.tops.Get().Resource("nodeupgrades").Param("watch", "true").
		Param("fieldSelector", named).Param("resourceVersion", resourceVersion).Watch(ctx)
}
