// Package daemonset has pure functions about one DaemonSet, its nodes and its pods.
//
//	ShouldRun       which nodes run it              placement.go
//	Availability    whether a pod is available      availability.go
//	SettingsOf      how it is upgraded              settings.go, settingserror.go
//	LimitOf         what an upgrade is limited to   limit.go
//	HoldsOf, OfAdministrator  the holds of a node   hold.go
//	TargetRevision  its newest revision             revision.go
//	IsLeaving       whether its component is gone   leaving.go
//	GcuResourceOwner, Component  whose it is        owner.go
//	StateTimes      when a state started            statetimes.go
//	PodOf           which pod of a node counts      pods.go
//	Images          the images of a pod             images.go
//	FurtherResources  more names for cards          resources.go
//
// The results follow the DaemonSet controller of Kubernetes, so that the operator and that
// controller never disagree about where a pod belongs.
package daemonset
