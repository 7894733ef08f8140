// Manager is the operator: it deploys what GcuResources ask for and rolls
// annotated DaemonSets. This package holds flags and wiring only; see packages
// gcuresource and daemonupdater.
//
// Besides what its controllers need it elects a leader, and says so in an event:
//
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=kube-system
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update,namespace=kube-system
package main
