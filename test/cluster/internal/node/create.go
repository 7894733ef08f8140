package node

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"golang.org/x/sync/errgroup"
)

// parallelRequests is the number of concurrent requests.
const parallelRequests = 16

// Create creates all nodes of the spec.
func Create(ctx context.Context, client kubernetes.Interface, spec Spec) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelRequests)
	for i := 1; i <= spec.Count; i++ {
		group.Go(func() error {
			if _, err := client.CoreV1().Nodes().Create(ctx, spec.build(i), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating node %s: %w", Name(i), err)
			}
			return nil
		})
	}
	return group.Wait()
}
