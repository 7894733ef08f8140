package v1

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// GcuResourceRecreation is an upgrade that the REST API accepted: the gr of the same name is deleted and
// created again from spec.gcuResource. Only the operator may write it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=gcuresourcerecreations,singular=gcuresourcerecreation,scope=Cluster
// +kubebuilder:printcolumn:name="USER",type=string,JSONPath=`.spec.author.username`
// +kubebuilder:printcolumn:name="CREATED",type=string,JSONPath=`.spec.created`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type GcuResourceRecreation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the upgrade.
	Spec GcuResourceRecreationSpec `json:"spec"`
}

// GcuResourceRecreationList is a list of GcuResourceRecreation.
//
// +kubebuilder:object:root=true
type GcuResourceRecreationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the GcuResourceRecreations.
	Items []GcuResourceRecreation `json:"items"`
}

// GcuResourceRecreationSpec is an accepted upgrade.
type GcuResourceRecreationSpec struct {
	// gcuResource is the gr to create once the old one is gone.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	GcuResource runtime.RawExtension `json:"gcuResource"`
	// replaces is the UID of the old gr.
	Replaces types.UID `json:"replaces"`
	// created is the UID of the new gr; empty until it is created.
	// +optional
	Created types.UID `json:"created,omitempty"`
	// requestID is the ID of the request.
	// +optional
	RequestID string `json:"requestID,omitempty"`
	// author sent the request. Before each step the operator checks that the author may still take it.
	// Empty if the REST API does not authenticate its callers.
	// +optional
	Author authenticationv1.UserInfo `json:"author,omitempty"`
	// acceptedTime is when the request was accepted.
	AcceptedTime metav1.Time `json:"acceptedTime"`
}
