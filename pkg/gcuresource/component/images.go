package component

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Images returns the images of all pods of a gr, sorted, without duplicates.
func Images(gr *topsv1.GcuResource) ([]string, error) {
	rendered, err := Render(gr, "")
	if err != nil {
		return nil, err
	}
	var images []string
	for i := range rendered {
		for _, d := range rendered[i].Objects {
			if !d.Ref.Workload() {
				continue
			}
			var workload appsv1.DaemonSet // Deployments and Jobs have their template in the same place
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, &workload); err != nil {
				return nil, fmt.Errorf("reading the pod template of %s: %w", d.Ref, err)
			}
			images = append(images, daemonset.Images(&workload.Spec.Template.Spec)...)
		}
	}
	slices.Sort(images)
	return slices.Compact(images), nil
}
