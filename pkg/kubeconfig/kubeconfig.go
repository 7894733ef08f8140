// Package kubeconfig finds the API server for programs that run in a pod or in a shell: the file of
// --kubeconfig, else $KUBECONFIG or ~/.kube/config, else the service account of the pod. An error
// says which of them to set.
package kubeconfig

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Usage is the help of a flag --kubeconfig.
const Usage = "`file` that leads to the API server; empty: $KUBECONFIG, else ~/.kube/config, else the service account of the pod"

// Load returns how to reach the API server, in the order of client-go: the file, those of
// $KUBECONFIG, ~/.kube/config, the service account of the pod. A file that is named and is
// not there, or is broken, is an error; files of $KUBECONFIG that are not there are passed over.
func Load(file string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("finding the API server: name a file with --kubeconfig or KUBECONFIG (this is not a pod with a service account)")
	case err != nil && file != "":
		return nil, fmt.Errorf("reading --kubeconfig %s: %w", file, err)
	case err != nil:
		return nil, fmt.Errorf("reading KUBECONFIG or ~/.kube/config: %w", err)
	}
	return config, nil
}
