// Package daemonset answers questions about one DaemonSet, its nodes and its
// pods. It is pure: facts in, answers out.
//
//	ShouldRun       which nodes run it            placement.go
//	Availability    is a pod of it available      availability.go
//	SettingsOf      how may it be upgraded        settings.go
//	TargetRevision  what is its newest template   revision.go
//	PodOf           which pod of a node counts    pods.go
//
// The answers follow the DaemonSet controller of Kubernetes, so that this
// operator and that controller never disagree about where a pod belongs.
package daemonset
