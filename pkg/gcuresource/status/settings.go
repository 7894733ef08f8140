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
	all, settled := setsOf(obs, steps)
	if agree(all) {
		return settings, nil
	}
	for _, ds := range settled {
		key := settingOfOthers(obs.Resource, ds)
		if own, err := daemonset.SettingsOf(ds); key != "" && (err != nil || own != settings) {
			return settings, &daemonset.SettingsError{Reason: daemonset.ReasonSettingsDisagree, Message: fmt.Sprintf(
				"annotation %s is on DaemonSet %s/%s, but not on the GcuResource: remove it from the DaemonSet", key, ds.Namespace, ds.Name)}
		}
	}
	return settings, nil
}

// setsOf returns the DaemonSets of a gr, also those that leave, and those of them that were applied since they changed: an
// annotation that the gr had would be gone from them.
func setsOf(obs *state.Observation, steps []plan.Step) (all, settled []*appsv1.DaemonSet) {
	add := func(ds *appsv1.DaemonSet, applied bool) {
		all = append(all, ds)
		if applied && !daemonset.Newer(obs.Applied[ds.UID].ResourceVersion, ds.ResourceVersion) {
			settled = append(settled, ds)
		}
	}
	for i := range steps {
		if ds := obs.Components[i].DaemonSet; ds != nil {
			add(ds, steps[i].Failure == nil && len(steps[i].Apply) == 0)
		}
	}
	for _, i := range obs.Leftovers() {
		if o := &obs.Owned[i]; o.DaemonSet != nil && !o.Deleting {
			_, applied := obs.Applied[o.UID]
			add(o.DaemonSet, applied && daemonset.IsLeaving(o.DaemonSet))
		}
	}
	return all, settled
}

// agree reports whether DaemonSets have the same settings, so that they are rolled out together.
func agree(all []*appsv1.DaemonSet) bool {
	var first daemonset.Settings
	for i, ds := range all {
		own, err := daemonset.SettingsOf(ds)
		if err != nil || i > 0 && own != first {
			return false
		}
		first = own
	}
	return true
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
