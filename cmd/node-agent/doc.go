// Node-agent runs on every node. It carries out what operations ask of the host and
// reports the host (package hosttasks, on hostagent), and serves the node's own OTA
// endpoint (package ota), both over one connection to the API server (package
// nodeapi). This package holds flags and wiring only.
//
// # Rights in the cluster
//
// The agent has a ServiceAccount, a ClusterRole and a Role of its own; it needs
// exactly what follows. It may not delete or evict pods, and not write nodes. Of
// Secrets it may read one name in one namespace; a person gives it more. The policy in
// config/admission lets it write the NodeUpgrade of its own node only, and there only
// what packages ota and hosttasks write: what they write in addition, it has to allow.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets;controllerrevisions,verbs=get
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=secrets,resourceNames=gcu-pull-secret,verbs=get
package main
