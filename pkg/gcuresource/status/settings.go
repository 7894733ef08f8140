package status

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// settingsOf returns the upgrade settings of a gr. A *daemonset.SettingsError says what is wrong with them, or
// which annotation only one of its DaemonSets has: the rollout waits until all agree.
func settingsOf(obs *state.Observation, steps []plan.Step) (daemonset.Settings, error) {
	settings, err := component.SettingsOf(obs.Resource)
	if err != nil {
		return settings, err
	}
	var agree, differ []*appsv1.DaemonSet
	for i := range steps {
		ds := obs.Components[i].DaemonSet
		switch {
		case ds == nil:
		case settingOfOthers(obs.Resource, ds) == "":
			agree = append(agree, ds)
		case steps[i].Failure == nil && len(steps[i].Apply) == 0 && !daemonset.Newer(obs.Applied[ds.UID].ResourceVersion, ds.ResourceVersion):
			differ = append(differ, ds) // an annotation that the gr had would be gone by now
		}
	}
	if len(agree) == 0 {
		return settings, nil
	}
	for _, ds := range differ {
		if own, err := daemonset.SettingsOf(ds); err != nil || own != settings {
			return settings, &daemonset.SettingsError{Reason: daemonset.ReasonSettingsDisagree, Message: fmt.Sprintf(
				"annotation %s is on DaemonSet %s/%s, but not on the GcuResource: remove it from the DaemonSet", settingOfOthers(obs.Resource, ds), ds.Namespace, ds.Name)}
		}
	}
	return settings, nil
}

// settingOfOthers returns the first upgrade annotation of a DaemonSet that its gr does not have, "" for none.
func settingOfOthers(gr *topsv1.GcuResource, ds *appsv1.DaemonSet) string {
	for _, key := range topsv1.UpgradeAnnotations {
		_, has := ds.Annotations[key]
		if _, carried := gr.Annotations[key]; has && !carried {
			return key
		}
	}
	return ""
}

// settingsFailure returns what is wrong with the upgrade settings of a gr, nil if nothing is.
func settingsFailure(err error) *state.Failure {
	var invalid *daemonset.SettingsError
	if errors.As(err, &invalid) {
		return &state.Failure{Reason: invalid.Reason, Message: invalid.Message}
	}
	return nil
}
