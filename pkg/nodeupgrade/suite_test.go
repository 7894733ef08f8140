package nodeupgrade

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// plane is access to an API server, on which the tests play the DaemonSet controller,
// the disruption controller, the kubelet and the node agent.
type plane struct {
	scheme *runtime.Scheme
	// admin has full access; config is the manager's, limited to its role.
	admin  client.Client
	config *rest.Config
	// connect returns what a new process reads from and writes to, what it reads past its
	// cache, and its evictor.
	connect func() (cached, live client.WithWatch, evictor drain.Evictor, err error)
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m))
}

func apiServer(t *testing.T) *plane {
	t.Helper()
	server := apiserver.Shared(t)
	p := &plane{scheme: server.Scheme, admin: server.Client(t, apiserver.Admin), config: server.As(apiserver.Operator)}
	p.connect = p.direct
	return p
}

// direct connects without a cache: what stands in for one lists the pods of a node as its index does,
// those too that are not scheduled yet.
func (p *plane) direct() (cached, live client.WithWatch, evictor drain.Evictor, err error) {
	live, err = client.NewWithWatch(p.config, client.Options{Scheme: p.scheme})
	if err != nil {
		return nil, nil, nil, err
	}
	httpClient, err := rest.HTTPClientFor(p.config)
	if err != nil {
		return nil, nil, nil, err
	}
	evictor, err = drain.NewEvictor(p.config, httpClient)
	cached = interceptor.NewClient(live, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		pods, is := list.(*corev1.PodList)
		var options client.ListOptions
		options.ApplyOptions(opts)
		if !is || options.FieldSelector == nil {
			return c.List(ctx, list, opts...)
		}
		node, _ := options.FieldSelector.RequiresExactMatch(nodeOfPod)
		err := c.List(ctx, list, client.InNamespace(options.Namespace))
		pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !slices.Contains(indexByNode(&pod), node) })
		return err
	}})
	return cached, live, evictor, err
}
