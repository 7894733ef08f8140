package operation

import (
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
)

// An operation without a request (OnlyIdle) ends before it touches a node if a pod, or a plain
// container, uses a card of it. Pods without cards do not count, even if the restart stops their
// containers: they leave as the drain policy says. If the restart stops plain containers as well, the agent has
// to see all of them: one that it does not see may use a card. Before its grant, the operation waits while
// the node is in use, and checks again.

// lookInterval is how often an operation without a grant looks whether cards are used.
const lookInterval = time.Minute

// lookAtUsers records whether cards of the node are used.
func lookAtUsers(c *changes) {
	if c.wanted.OnlyIdle {
		c.op.InUse = mayNotTouch(c.snapshot)
		c.at(c.f.Now.Add(lookInterval))
	}
}

// mayNotTouch reports whether the operation is only for an idle node, and this one is not.
func mayNotTouch(s *snapshot) bool { return s.wanted.OnlyIdle && userNames(s) != "" }

// awaitsRequest reports whether the operation gets no grant because cards were in use at the last check. What would
// block the drain of its node matters only once there is a request, which creates another operation.
func awaitsRequest(s *snapshot) bool { return s.op.InUse && !s.op.Granted }

// inUse ends the operation.
func inUse(s *snapshot) verdict {
	return verdict{phase: topsv1.OperationDeferred, reason: ReasonCardsInUse, text: "no request for the operation, and cards of the node are in use: " + userNames(s)}
}

// userNames describes what uses cards of the node, "" for nothing.
func userNames(s *snapshot) string {
	names := slices.Clone(s.f.CardUsers)
	if s.f.Host == nil {
		return message.Names(names)
	}
	if who, _ := inContainers(s); who != "" {
		names = append(names, who)
	}
	if visible := s.f.Host.DeviceHoldersVisible; s.op.DrainAll && (visible == nil || !*visible) {
		names = append(names, "maybe plain containers, which the restart stops and the node agent lacks the capability to see")
	}
	return message.Names(names)
}
