package daemonupdater

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// A driver may spoil the pods that use the device: those that were replaced along with it, at the version that they had,
// crash-loop once their node is in service again.
const simSpoils = "spoil"

// spoiledFor returns for how long the driver of a host has spoiled a pod, 0 if it does not.
func (w *simWorld) spoiledFor(h *simHost, pod *corev1.Pod) time.Duration {
	if h.machine == nil || !slices.Contains([]string{upgradeplan.TargetDevicePlugin, upgradeplan.TargetExporter}, simOwner(pod).Name) {
		return 0
	}
	if !strings.HasPrefix(h.machine.driver, simSpoils) {
		h.machine.spoils = time.Time{}
		return 0
	}
	if h.machine.spoils.IsZero() {
		r := w.rolloutOf(simFleet)
		if r == nil || slices.ContainsFunc(r.Status.InFlight, func(n topsv1.NodeSlot) bool { return n.Node == h.name }) {
			return 0
		}
		w.say("driver %s spoils what uses the device on %s", h.machine.driver, h.name)
		h.machine.spoils = w.now
	}
	return w.now.Sub(h.machine.spoils)
}
