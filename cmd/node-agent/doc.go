// Node-agent runs on every node. It runs the host tasks of operations and reports the host
// (package hosttasks, on hostagent), and serves the node's own OTA endpoint (package ota),
// both over one connection to the API server (package nodeapi). This package holds flags
// and wiring only.
//
// # Permissions in the cluster
//
// The agent has its own ServiceAccount, ClusterRole and Role, with exactly the permissions
// below. It may not delete or evict pods, nor write nodes. It may read one named Secret in
// one namespace; administrators may grant more. The policy in config/admission restricts
// its writes to the NodeUpgrade of its own node, and there to what packages ota and
// hosttasks write: any further field they write must be added to the policy.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups=apps,resources=daemonsets;controllerrevisions,verbs=get
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=secrets,resourceNames=gcu-pull-secret,verbs=get
package main
