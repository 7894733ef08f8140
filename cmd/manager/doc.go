// Manager is the operator: it deploys what GcuResources ask for and rolls
// annotated DaemonSets. This package holds flags and wiring only; see packages
// gcuresource and daemonupdater.
//
// Besides what its controllers need it elects a leader:
//
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update,namespace=kube-system
package main
