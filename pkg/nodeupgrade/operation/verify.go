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
	lacks func(v *view, t upgradeplan.Task) string
}

func (k verify) done(v *view, t upgradeplan.Task) bool { return k.lacks(v, t) == "" }

func (k verify) attempt(c *changes, t upgradeplan.Task) verdict {
	c.op.Touched = true // what is verified has its wanted revision, whoever put it there
	return waiting(ReasonInProgress, "%s", k.lacks(c.view, t))
}

func (verify) deadline(v *view, _ verdict) deadline {
	return deadline{v.limits.verify, v.blame(), ReasonVerifyFailed}
}

// unread says why what the agent shows does not count yet, "" that it does. It counts
// once it was read for this task, which is after the tasks before it.
func unread(v *view, t upgradeplan.Task) string {
	if result := v.answered(t); !succeeded(result) {
		if result != nil && result.Message != "" {
			return result.Message // what keeps the agent from it
		}
		return "the node agent has not looked since"
	}
	return ""
}

// driverLacks looks whether the driver works: nothing is lacking when the agent has looked
// since the task began, and shows the wanted driver loaded, with as many cards as before.
func driverLacks(v *view, t upgradeplan.Task) string {
	if lacks := unread(v, t); lacks != "" {
		return lacks
	}
	host, before := v.f.Host, v.op.Before
	need := int32(1)
	if before != nil && before.DriverVersion != "" {
		need = before.Devices // what was broken before is not the fault of the new version
	}
	switch {
	case host.DriverVersion == "":
		return "no driver is loaded"
	case v.wanted.DriverVersion != "" && host.DriverVersion != v.wanted.DriverVersion:
		return fmt.Sprintf("driver %s is loaded, not %s", host.DriverVersion, v.wanted.DriverVersion)
	case host.Devices == nil:
		return "the cards could not be counted"
	case *host.Devices < need:
		return fmt.Sprintf("%d cards are there, %d are needed", *host.Devices, need)
	}
	return ""
}

// verifiedRuntimeLacks looks whether the container engine has the wanted default runtime:
// nothing is lacking when the agent has looked since the task began, and shows it.
func verifiedRuntimeLacks(v *view, t upgradeplan.Task) string {
	if lacks := unread(v, t); lacks != "" {
		return lacks
	}
	return runtimeLacks(v)
}

// allocatableLacks looks whether the node offers its cards: nothing is lacking when it
// offers as much of each resource as the precheck recorded.
func allocatableLacks(v *view, _ upgradeplan.Task) string {
	if v.op.Before == nil {
		return ""
	}
	var lacks []string
	for name, before := range v.op.Before.Allocatable {
		if now := v.f.Node.Allocatable[name]; now < before {
			lacks = append(lacks, fmt.Sprintf("%d of %s are allocatable, %d were before", now, name, before))
		}
	}
	slices.Sort(lacks)
	return strings.Join(lacks, "; ")
}
