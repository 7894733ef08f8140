package operation

import (
	"fmt"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
)

// A driver cannot be removed while a process has a device of it open. Processes of pods leave
// with their pods; this file is about the others, on the host and in plain containers, which
// no drain reaches.

// strayHolders describes the processes outside of pods that have a device open by the last
// report, and returns what to do about them; "" when there is none.
func strayHolders(s *snapshot) (who, remedy string) {
	var named []string
	for i := range s.f.Host.DeviceHolders {
		if h := &s.f.Host.DeviceHolders[i]; h.PodUID == "" {
			named = append(named, describeHolder(h))
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

func describeHolder(h *topsv1.DeviceHolder) string {
	const shortID = 12 // as docker shows it
	container := ""
	if h.Container != "" {
		engine, id, known := strings.Cut(h.Container, "://")
		if !known {
			engine, id = "", h.Container
		}
		container = ", " + strings.TrimSpace(engine+" container "+id[:min(len(id), shortID)])
	}
	return fmt.Sprintf("process %d (%s, uid %d%s) has %s open", h.PID, h.Command, h.UID, container, h.Device)
}

// whyInUse returns, to be appended to the failure of a driver, which processes outside of pods
// have a device open, or that the agent may not see them; "" when it sees none, or reports
// nothing of them. It is not said earlier: without a failure there is nothing to look for.
func whyInUse(s *snapshot) string {
	if s.f.Host == nil {
		return ""
	}
	if who, _ := strayHolders(s); who != "" {
		return "; " + who
	}
	if visible := s.f.Host.DeviceHoldersVisible; visible != nil && !*visible {
		return "; a process outside of pods may have a card open: the node agent lacks the capability to see it"
	}
	return ""
}
