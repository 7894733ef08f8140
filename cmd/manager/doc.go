// Manager is the operator: it deploys the components of GcuResources and rolls out
// annotated DaemonSets. This package holds flags and wiring only; see packages gcuresource
// and daemonupdater.
//
// Leader election, which is also reported in an event, needs:
//
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch,namespace=kube-system
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=kube-system
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=gcu-operator.topsops.enflame.com,verbs=get;update,namespace=kube-system
package main
