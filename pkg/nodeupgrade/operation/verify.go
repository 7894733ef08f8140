package operation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// verify looks for the evidence that something works: a row of the table for each of the
// three verifications. It is done when nothing is lacking. A missed deadline fails the
// operation, because missing evidence never passes.
type verify struct {
	base
	// lacks says what is lacking, "" nothing.
	lacks func(s *snapshot, t upgradeplan.Task) string
}

func (k verify) done(s *snapshot, t upgradeplan.Task) bool { return k.lacks(s, t) == "" }

func (k verify) attempt(c *changes, t upgradeplan.Task) verdict {
	c.op.Touched = true // what is verified has its wanted revision, whoever put it there
	return waiting(ReasonInProgress, "%s", k.lacks(c.snapshot, t))
}

func (verify) deadline(s *snapshot, _ verdict) deadline {
	return deadline{s.limits.verify, s.blame(), ReasonVerifyFailed}
}

// unread says why what the agent shows does not count yet, "" that it does. It counts
// once it was read for this task, which is after the tasks before it.
func unread(s *snapshot, t upgradeplan.Task) string {
	if result := s.hostResult(t); !succeeded(result) {
		if result != nil && result.Message != "" {
			return result.Message // what keeps the agent from it
		}
		return "the node agent has not looked since"
	}
	return ""
}

// driverLacks looks whether the driver works: nothing is lacking when the agent has looked
// since the task began, and shows the wanted driver loaded, with as many cards as before.
func driverLacks(s *snapshot, t upgradeplan.Task) string {
	if lacks := unread(s, t); lacks != "" {
		return lacks
	}
	host, before := s.f.Host, s.op.Before
	need := int32(1)
	if before != nil && before.DriverVersion != "" {
		need = before.Devices // what was broken before is not the fault of the new version
	}
	switch {
	case host.DriverVersion == "":
		return "no driver is loaded"
	case s.wanted.DriverVersion != "" && host.DriverVersion != s.wanted.DriverVersion:
		return fmt.Sprintf("driver %s is loaded, not %s", host.DriverVersion, s.wanted.DriverVersion)
	case host.Devices == nil:
		return "the cards could not be counted"
	case *host.Devices < need:
		return fmt.Sprintf("%d cards are there, %d are needed", *host.Devices, need)
	}
	return ""
}

// verifiedRuntimeLacks looks whether the container engine has the wanted default runtime:
// nothing is lacking when the agent has looked since the task began, and shows it.
func verifiedRuntimeLacks(s *snapshot, t upgradeplan.Task) string {
	if lacks := unread(s, t); lacks != "" {
		return lacks
	}
	return runtimeLacks(s)
}

// allocatableLacks looks whether the node offers its cards: nothing is lacking when it
// offers as much of each resource as the precheck recorded.
func allocatableLacks(s *snapshot, _ upgradeplan.Task) string {
	if s.op.Before == nil {
		return ""
	}
	var lacks []string
	for name, before := range s.op.Before.Allocatable {
		if now := s.f.Node.Allocatable[name]; now < before {
			lacks = append(lacks, fmt.Sprintf("%d of %s are allocatable, %d were before", now, name, before))
		}
	}
	slices.Sort(lacks)
	return strings.Join(lacks, "; ")
}
