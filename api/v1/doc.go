// Package v1 is the API of the operator: group topsops.enflame.com, version v1.
//
// Six kinds, each answers one question:
//
//	GcuResource   (gr)   what should run?              written by the user; status by the gcuresource controller
//	UpgradePolicy (gup)  how may it be upgraded?      written by the user
//	UpgradePlan   (gpl)  in which batches?            written by the user
//	DaemonRollout (dro)  how is this upgrade going?    written by the daemonupdater
//	NodeUpgrade   (nu)   what is asked of this node?   requests by the node agent, tasks by the daemonupdater
//	GcuResourceRecreation  which gr is being created again?  written by the REST API
//
// Bad input is refused here where the API server can decide it: by schema and
// by CEL rules whose messages say what to change.
//
// +kubebuilder:object:generate=true
// +groupName=topsops.enflame.com
package v1
