package harness

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// WatchUpgrades calls see with every stored state of every NodeUpgrade, sequentially,
// until ctx ends, and returns after the initial list.
func WatchUpgrades(ctx context.Context, c *Cluster, see func(*topsv1.NodeUpgrade)) error {
	watcher, err := client.NewWithWatch(c.Config, client.Options{Scheme: c.Client.Scheme()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			var list topsv1.NodeUpgradeList
			return &list, watcher.List(ctx, &list, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return watcher.Watch(ctx, &topsv1.NodeUpgradeList{}, &client.ListOptions{Raw: &options})
		},
	}, &topsv1.NodeUpgrade{}, 0)
	return runInformer(ctx, informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { see(object.(*topsv1.NodeUpgrade)) },
		UpdateFunc: func(_, object any) { see(object.(*topsv1.NodeUpgrade)) },
	})
}
