package operation

import (
	"fmt"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Machine decides about operations on nodes. It has no state.
type Machine struct {
	// users are the components that hold the device open.
	users []string
	// components are all that the book upgrades.
	components []string
}

// New returns a Machine for a logic book, or an error if the book is invalid.
func New(book upgradeplan.LogicBook) (*Machine, error) {
	users, err := usersOfDevice(book)
	if err != nil {
		return nil, fmt.Errorf("reading who uses the device: %w", err)
	}
	return &Machine{users: users, components: book.Components()}, nil
}

// usersOfDevice returns the components that the book replaces along with the driver: those
// hold the device open.
func usersOfDevice(book upgradeplan.LogicBook) ([]string, error) {
	node := upgradeplan.Node{Name: "node", Changed: []string{upgradeplan.TargetDriver}, Deployed: book.Components()}
	tasks, err := upgradeplan.Generate(book, []upgradeplan.Node{node})
	if err != nil {
		return nil, err
	}
	var users []string
	for _, t := range tasks {
		if t.Action == upgradeplan.ActionReplace && t.Target != upgradeplan.TargetDriver {
			users = append(users, t.Target)
		}
	}
	return users, nil
}

// Uses reports whether a component holds the device open, and so is stopped while the driver
// is replaced.
func (m *Machine) Uses(component string) bool { return slices.Contains(m.users, component) }

// Components returns the components whose pods an operation replaces.
func (m *Machine) Components() []string { return m.components }

// Next decides about the operation of one node (design section 4). It depends on its input
// alone, and does not change it.
func (m *Machine) Next(f Facts) Decision {
	f.Operation, f.users = f.Operation.DeepCopy(), m.users
	c := &changes{Facts: &f}
	if lostHeld(c.Facts) {
		c.Operation.Held = true
		c.soon() // the facts are those of an operation that is over
	} else {
		leftovers(c)
		decide(c)
	}
	return Decision{Record: c.Record, Effects: c.effects, After: c.after}
}

// CheckOverride returns why an operation ignores this value of the annotation
// AnnotationTaskOverride on its NodeUpgrade, nil when it acts on it.
func (m *Machine) CheckOverride(wanted *topsv1.NodeOperation, node, value string) error {
	job, err := jobOf(wanted, node)
	if err != nil {
		return err
	}
	_, _, err = readOverride(&Facts{job: job}, value)
	return err
}

func decide(c *changes) {
	wanted := c.Wanted
	over := Over(c.Operation)
	switch {
	case over && (wanted == nil || c.Operation != nil && c.Operation.ID == wanted.ID):
		return
	case over:
		accept(c, wanted)
	case wanted == nil || wanted.ID != c.Operation.ID:
		c.limits = limitsOf(&topsv1.NodeOperation{})
		abandon(c, wanted)
	default:
		c.limits = limitsOf(wanted)
		c.job, _ = jobOf(wanted, c.Node.Name) // validated by accept
		c.badOverride = badOverride(c.Facts)
		proceed(c)
	}
	if hasDeadline(c.Facts) {
		c.at(c.Now.Add(tick))
	}
}

// hasDeadline reports whether time counts for an operation: a longer pause than tick would look like an absence of the
// manager, which moves its deadlines. None counts while it waits for its slot on a node that is Ready.
func hasDeadline(f *Facts) bool {
	switch f.Operation.Phase {
	case topsv1.OperationReleasing:
		return true
	case topsv1.OperationRunning:
		return !awaits(f) || !f.Node.Ready || f.Operation.Task != ""
	}
	return false
}
