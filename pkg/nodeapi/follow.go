package nodeapi

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Follow watches the NodeUpgrade of a node until ctx is done. It calls each listener with
// the observed states, nil after a deletion; calls of one listener are not concurrent.
// States may be skipped or stale: they signal when to read, not what is true. It retries
// with backoff while the API server is unavailable. An error means that it could not start.
func (s *Server) Follow(ctx context.Context, node string, log logr.Logger, listeners ...func(*topsv1.NodeUpgrade)) error {
	named := cache.NewListWatchFromClient(s.tops, "nodeupgrades", "", fields.OneTermEqualSelector("metadata.name", node))
	informer := cache.NewSharedIndexInformer(named, &topsv1.NodeUpgrade{}, 0, nil)
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		log.V(4).Info("Watching the NodeUpgrade failed", "cause", err.Error())
	})
	if err != nil {
		return fmt.Errorf("preparing the watch of NodeUpgrade %s: %w", node, err)
	}
	for _, listener := range listeners {
		if _, err := informer.AddEventHandler(handler(listener)); err != nil {
			return fmt.Errorf("preparing the watch of NodeUpgrade %s: %w", node, err)
		}
	}
	informer.RunWithContext(ctx)
	return nil
}

// handler passes the events of an informer to a listener.
func handler(listener func(*topsv1.NodeUpgrade)) cache.ResourceEventHandler {
	state := func(object any) {
		if nodeUpgrade, ok := object.(*topsv1.NodeUpgrade); ok {
			listener(nodeUpgrade)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    state,
		UpdateFunc: func(_, object any) { state(object) },
		DeleteFunc: func(any) { listener(nil) },
	}
}
