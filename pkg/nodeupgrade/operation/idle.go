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
	if c.Wanted.OnlyIdle {
		c.Operation.InUse = mayNotTouch(c.Facts)
		c.at(c.Now.Add(lookInterval))
	}
}

// mayNotTouch reports whether the operation is only for an idle node, and this one is not.
func mayNotTouch(f *Facts) bool { return f.Wanted.OnlyIdle && userNames(f) != "" }

// awaitsRequest reports whether the operation gets no grant because cards were in use at the last check. What would
// block the drain of its node matters only once there is a request, which creates another operation.
func awaitsRequest(f *Facts) bool { return f.Operation.InUse && !f.Operation.Granted }

// inUse ends the operation.
func inUse(f *Facts) verdict {
	return verdict{phase: topsv1.OperationDeferred, reason: ReasonCardsInUse, text: "no request for the operation, and cards of the node are in use: " + userNames(f)}
}

// userNames describes what uses cards of the node, "" for nothing.
func userNames(f *Facts) string {
	names := slices.Clone(f.CardUsers)
	if f.Host == nil {
		return message.Names(names)
	}
	if who, _ := inContainers(f); who != "" {
		names = append(names, who)
	}
	if visible := f.Host.DeviceHoldersVisible; f.Operation.DrainAll && (visible == nil || !*visible) {
		names = append(names, "maybe plain containers, which the restart stops: "+couldNotLook)
	}
	return message.Names(names)
}
