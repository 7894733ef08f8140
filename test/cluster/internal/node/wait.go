package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// statePoll is the minimum poll interval.
	statePoll = 250 * time.Millisecond
	// restFactor is the ratio of the pause between two polls to the duration of a poll:
	// with a thousand nodes, polling must not slow the cluster down.
	restFactor = 10
	// shownNames is the maximum number of nodes that a message names.
	shownNames = 5
)

// Ready reports whether a node is Ready and accepts pods: its not-ready taints must
// be gone too.
func Ready(n *corev1.Node) bool {
	tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	})
	return !tainted && readyStatus(n) == corev1.ConditionTrue
}

// notReady reports whether the cluster has detected that a node is offline.
func notReady(n *corev1.Node) bool { return readyStatus(n) != corev1.ConditionTrue }

func readyStatus(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// Wait waits until all named nodes are Ready (online) or NotReady, and calls reached
// once for each when it is. It calls alive between polls and returns its error.
func Wait(ctx context.Context, client kubernetes.Interface, names []string, online bool, alive func() error, reached func(name string)) error {
	pending := map[string]bool{}
	for _, name := range names {
		pending[name] = true
	}
	for len(pending) > 0 {
		if err := alive(); err != nil {
			return err
		}
		start := time.Now()
		nodes, err := list(ctx, client)
		if err != nil && ctx.Err() == nil {
			return err
		}
		rest := max(statePoll, restFactor*time.Since(start))
		for _, name := range arrived(nodes, pending, online) {
			delete(pending, name)
			reached(name)
		}
		if len(pending) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to be %s: %w", some(pending), state(online), context.Cause(ctx))
		case <-time.After(rest):
		}
	}
	return nil
}

// arrived returns the pending nodes that have reached the desired state, sorted.
func arrived(nodes []corev1.Node, pending map[string]bool, online bool) []string {
	var names []string
	for i := range nodes {
		n := &nodes[i]
		if pending[n.Name] && (online && Ready(n) || !online && notReady(n)) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}

func state(online bool) string {
	if online {
		return "Ready"
	}
	return "NotReady"
}

// some returns the first few names of the pending nodes.
func some(pending map[string]bool) string {
	var names []string
	for name := range pending {
		names = append(names, name)
	}
	slices.Sort(names)
	if more := len(names) - shownNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shownNames], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Count returns the number of Ready nodes and of all nodes.
func Count(ctx context.Context, client kubernetes.Interface) (ready, total int, err error) {
	nodes, err := list(ctx, client)
	if err != nil {
		return 0, 0, err
	}
	for i := range nodes {
		if readyStatus(&nodes[i]) == corev1.ConditionTrue {
			ready++
		}
	}
	return ready, len(nodes), nil
}
