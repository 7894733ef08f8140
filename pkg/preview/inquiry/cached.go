package inquiry

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Cached returns an object of each kind that a Predictor reads through its Reader, so that a cache can be filled before
// the first question.
func Cached() []client.Object {
	return []client.Object{&topsv1.GcuResource{}, &topsv1.UpgradePolicy{}, &topsv1.UpgradePlan{}, &topsv1.DaemonRollout{}, &topsv1.NodeUpgrade{},
		&appsv1.DaemonSet{}, &appsv1.ControllerRevision{}, &corev1.Node{}, &corev1.Pod{}}
}
