// Package nfd simulates node-feature-discovery v0.11.3 as far as the operator and its
// components need it (docs/components.md 1.1): the worker reads features.d, and the
// master labels the node. Tests also put the label of a node's cards there. The real
// nfd cannot be required, because its module has replace directives.
package nfd

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

const (
	address = ":8080"
	// owned is the annotation that lists the labels that nfd wrote.
	owned = "nfd.node.kubernetes.io/feature-labels"
	// ownNamespace is the namespace of labels without one.
	ownNamespace = "feature.node.kubernetes.io"
	// requestTime is the timeout of a request and of the server's shutdown.
	requestTime  = 10 * time.Second
	maxBodyBytes = 1 << 20
)

// Master labels a node with the features that its worker sends, until ctx is done.
func Master(ctx context.Context, node string, args []string) error {
	flags := flag.NewFlagSet("nfd-master", flag.ContinueOnError)
	extra := flags.String("extra-label-ns", "", "comma-separated label namespaces that are allowed besides nfd's own")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return err
	}
	m := master{nodes: client.Nodes(), node: node, allowed: append(strings.Split(*extra, ","), ownNamespace)}
	server := &http.Server{Addr: address, Handler: m, ReadHeaderTimeout: requestTime}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		closing, cancel := context.WithTimeout(context.Background(), requestTime)
		defer cancel()
		return server.Shutdown(closing)
	}
}

type master struct {
	nodes   corev1client.NodeInterface
	node    string
	allowed []string
}

// ServeHTTP receives the labels of the node from its worker.
func (m master) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var labels map[string]string
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBodyBytes)).Decode(&labels); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	if err := m.label(ctx, labels); err != nil {
		log.Print(err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// label updates the node's labels.
func (m master) label(ctx context.Context, labels map[string]string) error {
	node, err := m.nodes.Get(ctx, m.node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading node %s: %w", m.node, err)
	}
	change := changeOf(node.Labels, node.Annotations[owned], m.permitted(labels))
	if change == nil {
		return nil
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	log.Printf("labels the node: %s", patch)
	_, err = m.nodes.Patch(ctx, m.node, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("labeling node %s: %w", m.node, err)
	}
	return nil
}

// permitted returns the labels with an allowed namespace.
func (m master) permitted(labels map[string]string) map[string]string {
	allowed := map[string]string{}
	for key, value := range labels {
		if namespace, _, _ := strings.Cut(key, "/"); slices.Contains(m.allowed, namespace) {
			allowed[key] = value
		}
	}
	return allowed
}

// changeOf returns the merge patch that sets the wanted labels and removes those that
// were written before and are no longer wanted; nil for no change.
func changeOf(has map[string]string, before string, wanted map[string]string) map[string]any {
	labels := map[string]any{}
	for key, value := range wanted {
		if now, found := has[key]; !found || now != value {
			labels[key] = value
		}
	}
	for key := range strings.SplitSeq(before, ",") {
		_, isWanted := wanted[key]
		if _, found := has[key]; found && !isWanted {
			labels[key] = nil
		}
	}
	after := strings.Join(slices.Sorted(maps.Keys(wanted)), ",")
	if len(labels) == 0 && after == before {
		return nil
	}
	return map[string]any{"metadata": map[string]any{"labels": labels, "annotations": map[string]string{owned: after}}}
}
