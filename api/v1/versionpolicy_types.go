package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VersionPolicy says which versions may follow each other on a node, and which fit together there.
// The version of a component is the tag of the image of its first container, without a digest. It
// is compared by semantic versioning: 1.6.0-rc.1 is before 1.6.0. Ranges are written as in
// ">=1.5.0 <1.7.0 || 2.0.x", with all three numbers or x; spaces mean and, || means or.
type VersionPolicy struct {
	// steps are the changes of version that are allowed; each is also allowed backwards, to the older
	// version. A component without a step may change from any version to any other. If no step
	// leads from the version that a node has to the new one, the node waits, and the message names
	// the steps that lead there. Default: any change is allowed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Steps []VersionStep `json:"steps,omitempty"`
	// fit says what a version of a component requires of its node. What an upgrade leaves unchanged
	// is not checked. Default: everything fits.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Fit []VersionFit `json:"fit,omitempty"`
}

// VersionStep allows a component to go from one range of versions to another, and back.
type VersionStep struct {
	// component of a gr, by its key in the spec.
	Component NodeComponent `json:"component"`
	// from is the range of versions before the change.
	From VersionRange `json:"from"`
	// to is the range of versions after the change.
	To VersionRange `json:"to"`
}

// VersionFit says what a range of versions of a component requires.
//
// +kubebuilder:validation:XValidation:rule="has(self.components) || has(self.kernel) || has(self.nodeSelector)",message="a fit requires components, a kernel or a nodeSelector"
type VersionFit struct {
	// component of a gr, by its key in the spec.
	Component NodeComponent `json:"component"`
	// version is the range of versions that the rule applies to. Default: all.
	// +optional
	Version VersionRange `json:"version,omitempty"`
	// components that must be on the node in these versions, deployed by the same gr.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Components []ComponentVersion `json:"components,omitempty"`
	// kernel is the range of versions of the kernel that the node must run. Only the numbers
	// before the first - count: 5.15.0-91-generic is 5.15.0.
	// +optional
	Kernel VersionRange `json:"kernel,omitempty"`
	// nodeSelector must match the labels of the node.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
}

// ComponentVersion is a range of versions of a component.
type ComponentVersion struct {
	// component of a gr, by its key in the spec.
	Component NodeComponent `json:"component"`
	// version is the range.
	Version VersionRange `json:"version"`
}

// VersionRange is a range of versions, such as ">=1.5.0 <1.7.0 || 2.0.x".
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern=`^[-0-9A-Za-z.+<>=!| ]+$`
type VersionRange string

// NodeComponent is a component of a gr that runs on every node.
//
// +kubebuilder:validation:Enum=driver;toolkit;devicePlugin;gcusharePlugin;exporter;gfd;nfd
type NodeComponent string
