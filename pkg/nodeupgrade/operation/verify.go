package operation

import (
	"fmt"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// verify looks for evidence that something works; the table has a row for each of the three
// verifications. It is done when nothing is lacking. A missed deadline fails the operation:
// missing evidence never passes.
type verify struct {
	base
	// lacks describes what is lacking, "" when nothing.
	lacks func(f *Facts, t upgradeplan.Task) string
}

func (k verify) done(f *Facts, t upgradeplan.Task) bool { return k.lacks(f, t) == "" }

func (k verify) attempt(c *changes, t upgradeplan.Task) verdict {
	c.Operation.Touched = true // what is verified is at the wanted revision, even if another client put it there
	return waiting(ReasonInProgress, "%s", k.lacks(c.Facts, t))
}

func (verify) deadline(f *Facts, _ verdict) deadline {
	return deadline{f.limits.verify, f.blame(), ReasonVerifyFailed}
}

// unread returns why the agent's report does not count yet, "" when it does. It counts once
// it was made for this task, and so after the tasks before it.
func unread(f *Facts, t upgradeplan.Task) string {
	if result := f.hostResult(t); !succeeded(result) {
		if result != nil && result.Message != "" {
			return result.Message // why the agent could not
		}
		return "the node agent has not reported since"
	}
	return ""
}

// driverLacks checks that the driver works: the agent has looked since the task began, and
// reports the wanted driver loaded, with as many cards as before.
func driverLacks(f *Facts, t upgradeplan.Task) string {
	if lacks := unread(f, t); lacks != "" {
		return lacks
	}
	host, before := f.Host, f.Operation.Before
	need := int32(1)
	if before != nil && before.DriverVersion != "" {
		need = before.Devices // cards already broken do not count against the new version
	}
	switch {
	case host.DriverVersion == "":
		return "no driver is loaded"
	case f.Wanted.DriverVersion != "" && host.DriverVersion != f.Wanted.DriverVersion:
		return fmt.Sprintf("driver %s is loaded, not %s", host.DriverVersion, f.Wanted.DriverVersion)
	case host.Devices == nil:
		return "the cards could not be counted"
	case *host.Devices < need:
		return fmt.Sprintf("%d cards found, %d needed", *host.Devices, need) + handedOnBaseline(f, t)
	}
	return ""
}

// verifiedRuntimeLacks checks that the container engine has the wanted default runtime, as
// reported by the agent since the task began.
func verifiedRuntimeLacks(f *Facts, t upgradeplan.Task) string {
	if lacks := unread(f, t); lacks != "" {
		return lacks
	}
	return runtimeLacks(f)
}

// verifyAllocatable is verify for the resources of the node. If it has cards and offers none, a device
// plugin that is older than the operation is replaced first: it may have started before the runtime
// was restarted, by a person or by an operation that was interrupted. A plugin that has no cards because a person has restarted the
// runtime since is replaced too. The clock of the manager, by which the operation started, may differ
// from that of the API server, by which pods are created. If it is ahead, a plugin that is younger is replaced once more, on a node that is
// empty. If it is behind, one that was created in that time before the start stays; a bound (daemonset.MaxSkew) would have every operation replace
// the plugin that it has just started.
type verifyAllocatable struct{ verify }

func (k verifyAllocatable) attempt(c *changes, t upgradeplan.Task) verdict {
	var old []*Member
	for i := range c.Members {
		m := &c.Members[i]
		if isDevicePlugin(m) && !m.Uncontrolled && m.NoSuccessor == "" && (m.Pod.NoCards || m.Pod.Created.Before(c.Operation.StartTime.Time)) && !follows(m.Pod, c.recorded(t).Users) {
			old = append(old, m)
		}
	}
	v := k.verify.attempt(c, t) // also records that the node is touched
	if len(old) > 0 && offersNone(c.Facts) {
		v = replacePods(c, t, old)
	}
	if m := otherPlugin(c.Facts); m != nil {
		v.atEnd = "; " + faultOf(c.Facts, m)
	}
	return v
}

// deadline is the one of verify, except that the operation is deferred if an old device plugin may not be deleted, or if the
// cause is one that is not its own (otherPlugin): if the node stayed cordoned, the gr that deploys the plugin could not replace it.
func (k verifyAllocatable) deadline(f *Facts, v verdict) deadline {
	limit := k.verify.deadline(f, v)
	if v.reason == ReasonDeletionDenied {
		return deadline{limit.after, topsv1.OperationDeferred, v.reason}
	}
	if otherPlugin(f) != nil {
		limit.phase = topsv1.OperationDeferred
	}
	return limit
}

// allocatableLacks checks that the node offers as much of each resource as is needed after what the precheck
// recorded, and at least one if it has cards and a device plugin runs there. While the runtime has to be
// restarted the node can offer none: the operation that restarts it verifies them.
func allocatableLacks(f *Facts, t upgradeplan.Task) string {
	if f.Operation.Before == nil || f.Host.NeedsRestart() && !restarts(f) {
		return ""
	}
	var lacks []string
	if slices.ContainsFunc(f.Members, func(m Member) bool { return isDevicePlugin(&m) }) && offersNone(f) {
		lacks = append(lacks, "the node has cards, but none is allocatable")
	}
	handedOn := ""
	for name := range f.Operation.Before.Allocatable {
		if cardsLeave(f) {
			break
		}
		if now, need := f.Node.Allocatable[name], needed(f, name); now < need {
			lacks, handedOn = append(lacks, fmt.Sprintf("%d of %s are allocatable, %d are needed", now, name, need)), handedOnBaseline(f, t)
		}
	}
	slices.Sort(lacks)
	if len(lacks) > 0 && !slices.ContainsFunc(f.Members, func(m Member) bool { return OffersCards(m.Component) }) {
		lacks = append(lacks, "no gr has a device plugin there")
	}
	return strings.Join(lacks, "; ") + handedOn
}

// sharedCards is the resource of which a device plugin makes several shares of each card.
const sharedCards = "enflame.com/shared-gcu"

// needed returns how much of a resource the node has to offer: as much as before, or the shares of as many cards as before if the
// device plugin that runs there makes fewer of each card.
func needed(f *Facts, resource string) int64 {
	need := f.Operation.Before.Allocatable[resource]
	for i := range f.Members {
		if m := &f.Members[i]; resource == sharedCards && isDevicePlugin(m) && m.Shares > 0 && m.Pod.Revision == m.Newest && f.Operation.Before.Devices > 0 {
			need = min(need, m.Shares*int64(f.Operation.Before.Devices))
		}
	}
	return need
}

// handedOnBaseline says that what a verification needs is from before an earlier operation, from which this one took the cordon over,
// and what a person can do; "" if it is not: cards that broke for another reason since are needed too.
func handedOnBaseline(f *Facts, t upgradeplan.Task) string {
	if f.Operation.CordonedBy == "" {
		return ""
	}
	return fmt.Sprintf("; it was so before operation %s failed on the node: if less is right now, kubectl gcu task skip %s %s_%s, or kubectl gcu abort %s", f.Operation.CordonedBy, t.Host, t.Target, t.Action, t.Host)
}

// cardsLeave reports whether the operation removes the device plugin that offers the cards of the node.
func cardsLeave(f *Facts) bool {
	return slices.ContainsFunc([]string{upgradeplan.TargetDriver, upgradeplan.TargetDevicePlugin, upgradeplan.TargetGcusharePlugin}, func(component string) bool {
		list := f.replaced(component)
		return len(list) > 0 && !slices.ContainsFunc(list, func(r replaced) bool { return !r.leaves() })
	})
}
