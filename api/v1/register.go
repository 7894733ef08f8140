package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is topsops.enflame.com/v1 (contract statement 1).
var GroupVersion = schema.GroupVersion{Group: "topsops.enflame.com", Version: "v1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the kinds of this package. It returns an error only
// when a kind is already registered with another Go type.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&GcuResource{}, &GcuResourceList{},
		&DaemonRollout{}, &DaemonRolloutList{},
		&NodeUpgrade{}, &NodeUpgradeList{},
		&UpgradePolicy{}, &UpgradePolicyList{},
		&UpgradePlan{}, &UpgradePlanList{},
		&GcuResourceRecreation{}, &GcuResourceRecreationList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
