package operation

import (
	"fmt"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// A driver cannot be removed while a process has a device of it open, and the restart of an engine may
// stop plain containers. Processes of pods leave with their pods; this file is about those that no
// drain reaches: on the host, in plain containers, in pods that do not ask for the device, and in pods
// that the API server does not have. A pod that has just ended is one of these until the next report.

// strayHolders describes the processes that have a device open by the last report and that no drain
// ends, and returns what to do about them; "" when there is none.
func strayHolders(f *Facts) (who, remedy string) {
	return describeHolders(f, func(h *topsv1.DeviceHolder) bool {
		_, stays := f.StayingPods[h.PodUID]
		return h.PodUID == "" || stays
	})
}

// inContainers is strayHolders for plain containers alone, which the restart of an engine stops.
func inContainers(f *Facts) (who, remedy string) {
	return describeHolders(f, isInContainer)
}

func isInContainer(h *topsv1.DeviceHolder) bool { return h.PodUID == "" && h.Container != "" }

func describeHolders(f *Facts, which func(*topsv1.DeviceHolder) bool) (who, remedy string) {
	var named []string
	for i := range f.Host.DeviceHolders {
		if h := &f.Host.DeviceHolders[i]; which(h) {
			named = append(named, describeHolder(f, h))
		}
	}
	switch len(named) {
	case 0:
		return "", ""
	case 1:
		return named[0], ": stop it"
	}
	return message.Names(named), ": stop them"
}

func describeHolder(f *Facts, h *topsv1.DeviceHolder) string {
	const shortID = 12 // as docker shows it
	container := ""
	switch pod, stays := f.StayingPods[h.PodUID]; {
	case pod != "":
		container = fmt.Sprintf(", pod %s, which the drain leaves", pod)
	case stays:
		container = fmt.Sprintf(", pod %s, which the API server does not have", h.PodUID)
	case h.Container != "":
		engine, id, known := strings.Cut(h.Container, "://")
		if !known {
			engine, id = "", h.Container
		}
		container = ", " + strings.TrimSpace(engine+" container "+id[:min(len(id), shortID)])
	}
	return fmt.Sprintf("process %d (%s, uid %d%s) has %s open", h.PID, h.Command, h.UID, container, h.Device)
}

// whyInUse returns, to be appended to the failure of a driver, which processes that no drain ends have
// a device open, or that the agent may not see them; "" when it sees none, or reports nothing of them.
func whyInUse(f *Facts) string {
	if f.Host == nil {
		return ""
	}
	if who, _ := strayHolders(f); who != "" {
		return "; " + who
	}
	return unseenHolders(f)
}

const couldNotLook = "the node agent could not look at every process (it may lack the capability SYS_PTRACE)"

// unseenHolders returns, to be appended to a message, that the agent does not see every process that may have a device
// open; "" when it does, or reports nothing about them.
func unseenHolders(f *Facts) string {
	if visible := f.Host.DeviceHoldersVisible; visible != nil && !*visible {
		return "; a process outside of pods may have a card open: " + couldNotLook
	}
	return ""
}

// unseenBefore returns which processes an operation cannot know of before it takes its slot, if processes that no
// drain ends matter to it.
func unseenBefore(f *Facts) string {
	if f.Host == nil || !f.has(upgradeplan.ActionReplace, upgradeplan.TargetDriver) && !f.Operation.DrainAll {
		return ""
	}
	return unseenHolders(f)
}
