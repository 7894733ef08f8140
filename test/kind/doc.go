// Package kind runs the shortest stories of the operator on a given cluster: one of
// kind, of k3d, or any other.
//
//	make test-kind                      a new cluster of kind, removed afterwards
//	make test-kind KUBECONFIG=FILE ...  another cluster, and its hooks (README.md)
//
// The stories are the two of OpenYurt's document with its commands, the default gr, and a rollout of
// the gr while a node is offline. They use what users use: kubectl, curl on a node, and programs that
// cut a node's link.
package kind
