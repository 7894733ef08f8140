package gcuresource

import (
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Reasons of the upgrade condition and of Progressing while it is open.
const (
	// ReasonUpgrading means that pods are being replaced.
	ReasonUpgrading = "Upgrading"
	// ReasonPaused means that an annotation stopped it.
	ReasonPaused = "Paused"
	// ReasonWaitingForNodes means that each node decides for itself (OTA).
	ReasonWaitingForNodes = "WaitingForNodes"
	// ReasonNoStrategy means that nobody replaces pods.
	ReasonNoStrategy = "NoUpdateStrategy"
)

// upgrade is how the pods of a gr follow its newest templates.
type upgrade struct {
	// open is true from the moment a template changed until every reachable
	// node has it.
	open bool
	// updated of total pods on Ready nodes are at the newest revision and available.
	updated, total int
	// rolling is true when this operator replaces the pods by itself.
	rolling bool
	// reason and message say how it goes; empty when it is not open.
	reason, message string
}

// progress is the share that is done, in percent.
func (u *upgrade) progress() int32 {
	if u.total == 0 {
		return 0
	}
	return int32(u.updated * 100 / u.total)
}

// settingsOf reads the upgrade settings a gr carries onto its DaemonSets.
func settingsOf(gr *topsv1.GcuResource) (daemonset.Settings, error) {
	return daemonset.SettingsOf(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Annotations: carried(gr)},
		Spec:       appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}},
	})
}

// settingsFailure returns what is wrong with the upgrade settings of a gr, nil when nothing is.
func settingsFailure(err error) *Failure {
	var invalid *daemonset.SettingsError
	if errors.As(err, &invalid) {
		return &Failure{Reason: invalid.Reason, Message: invalid.Message}
	}
	return nil
}

// upgradeOf says how an upgrade of the gr goes. The status last written is
// asked for one thing only: whether an upgrade was under way, because the pods
// of its last nodes are missing without any pod being outdated.
func upgradeOf(obs *Observation, steps []Step) upgrade {
	var u upgrade
	changed := false
	for i := range steps {
		h := &steps[i].health
		u.total += h.expected
		u.updated += h.updated
		changed = changed || h.outdated > 0 || (h.seen && !h.observed)
	}
	settings, err := settingsOf(obs.Resource)
	u.rolling = err == nil && settings.Strategy == daemonset.AdvancedRollingUpdate
	u.open = changed || (wasUpgrading(obs.Resource) && u.updated < u.total)
	if !u.open {
		return u
	}
	u.reason, u.message = upgradeWords(settings, err)
	u.message = fmt.Sprintf("%d of %d pods at the newest revision%s", u.updated, u.total, u.message)
	return u
}

// upgradeWords says who replaces outdated pods.
func upgradeWords(settings daemonset.Settings, err error) (reason, message string) {
	if f := settingsFailure(err); f != nil {
		return f.Reason, "; nobody replaces pods: " + f.Message
	}
	switch {
	case settings.Strategy == daemonset.NoStrategy:
		return ReasonNoStrategy, "; no update-strategy annotation: nobody replaces pods, set " + topsv1.AnnotationUpdateStrategy
	case settings.Paused:
		return ReasonPaused, "; paused: no new node is started until annotation " + topsv1.AnnotationPaused + " is removed"
	case settings.Strategy == daemonset.OTA:
		return ReasonWaitingForNodes, "; strategy OTA: each node upgrades when its node asks"
	}
	return ReasonUpgrading, ""
}

func wasUpgrading(gr *topsv1.GcuResource) bool {
	return slices.ContainsFunc(gr.Status.Conditions, func(c topsv1.ActionCondition) bool {
		return c.Action == topsv1.ActionUpgrade && c.Status == topsv1.PhaseUpgrading
	})
}

// finishesUpgrade tells whether a status ends an upgrade that was under way.
func finishesUpgrade(gr *topsv1.GcuResource, status *topsv1.GcuResourceStatus) bool {
	return wasUpgrading(gr) && !wasUpgrading(&topsv1.GcuResource{Status: *status})
}
