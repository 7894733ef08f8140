package operation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// verify is what the three verifications have in common: a missed deadline fails the
// operation, because missing evidence never passes.
type verify struct{ base }

func (verify) deadline(v *view, _ verdict) deadline {
	return deadline{v.limits.verify, v.blame(), ReasonVerifyFailed}
}

// unverified waits for the evidence that is lacking.
func unverified(c *changes, lacks string) verdict {
	c.op.Touched = true // what is verified has its wanted revision, whoever put it there
	return waiting(ReasonInProgress, "%s", lacks)
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

// verifyDriver looks whether the driver works. It is done when the agent has looked
// since the task began, and shows the wanted driver loaded, with as many cards as
// before. A missed deadline fails the operation.
type verifyDriver struct{ verify }

func (d verifyDriver) done(v *view, t upgradeplan.Task) bool { return d.lacks(v, t) == "" }

func (d verifyDriver) attempt(c *changes, t upgradeplan.Task) verdict {
	return unverified(c, d.lacks(c.view, t))
}

func (verifyDriver) lacks(v *view, t upgradeplan.Task) string {
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

// verifyRuntime looks whether the container engine has the wanted default runtime. It is
// done when the agent has looked since the task began, and shows it. A missed deadline
// fails the operation.
type verifyRuntime struct{ verify }

func (r verifyRuntime) done(v *view, t upgradeplan.Task) bool { return r.lacks(v, t) == "" }

func (r verifyRuntime) attempt(c *changes, t upgradeplan.Task) verdict {
	return unverified(c, r.lacks(c.view, t))
}

func (verifyRuntime) lacks(v *view, t upgradeplan.Task) string {
	if lacks := unread(v, t); lacks != "" {
		return lacks
	}
	return runtimeLacks(v)
}

// verifyAllocatable looks whether the node offers its cards. It is done when it offers
// as much of each resource as the precheck recorded. A missed deadline fails the
// operation.
type verifyAllocatable struct{ verify }

func (a verifyAllocatable) done(v *view, _ upgradeplan.Task) bool { return a.lacks(v) == "" }

func (a verifyAllocatable) attempt(c *changes, _ upgradeplan.Task) verdict {
	return unverified(c, a.lacks(c.view))
}

func (verifyAllocatable) lacks(v *view) string {
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
