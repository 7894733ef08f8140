// Node-agent runs on every node and serves the node's own OTA endpoint (see
// package ota). This package holds flags and wiring only.
//
// # Rights in the cluster
//
// The agent has a ServiceAccount and a ClusterRole of its own; it needs exactly
// what follows. It may not delete or evict pods, and not write nodes.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades/status,verbs=get;patch
package main
