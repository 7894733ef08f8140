package upgradeapi

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

var (
	grKind        = topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind)
	grResource    = schema.GroupResource{Group: topsv1.GroupVersion.Group, Resource: "gcuresources"}
	planResource  = schema.GroupResource{Group: topsv1.GroupVersion.Group, Resource: "upgradeplans"}
	rolloutKind   = topsv1.GroupVersion.WithKind("DaemonRollout")
	rollouts      = schema.GroupResource{Group: topsv1.GroupVersion.Group, Resource: "daemonrollouts"}
	daemonSetKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	daemonSets    = schema.GroupResource{Group: appsv1.GroupName, Resource: "daemonsets"}
	revisionKind  = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
)

// validName reports whether a gr may have this name; others are rejected unread.
func validName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }
