package hostapi

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/message"
)

const (
	// ReportPeriod is the age at which a report is renewed. With jitter it stays below the
	// minute that the API promises.
	ReportPeriod = 40 * time.Second
	// maxMissing and maxResults are the limits of the API.
	maxMissing  = 16
	maxResults  = 64
	maxMessage  = 1024
	maxVersion  = 256
	maxIdentity = 128
	maxReason   = 63
	// keptOperations is the maximum number of operations with results in a report, unless more are current.
	keptOperations = 4
)

// ReportOf returns facts as a report, without results.
func ReportOf(facts task.Facts, now time.Time) *topsv1.HostReport {
	report := &topsv1.HostReport{Time: stored(now)}
	if host := facts.Host; host != nil {
		report.BootID, report.FreeDiskBytes = message.Short(host.BootID, maxIdentity), host.FreeDiskBytes
		report.DriverVersion = message.Short(host.DriverVersion, maxVersion)
		if host.Devices != nil {
			report.Devices = ptr.To(int32(*host.Devices))
		}
		reportHolders(report, host.Holders)
		for _, missing := range host.Missing[:min(len(host.Missing), maxMissing)] {
			report.Missing = append(report.Missing, message.Short(missing, maxMessage))
		}
	}
	if engine := facts.Runtime; engine != nil {
		report.Runtime = &topsv1.RuntimeReport{Engine: string(engine.Engine), Version: message.Short(engine.Version, maxVersion), Default: message.Short(engine.Default, maxVersion),
			RestartStopsContainers: ptr.To(engine.RestartStopsContainers)}
		if !engine.Started.IsZero() {
			report.Runtime.StartTime = ptr.To(stored(engine.Started))
		}
		if !engine.DefaultSince.IsZero() {
			report.Runtime.DefaultSince = ptr.To(stored(engine.DefaultSince))
		}
	}
	return report
}

// stored returns a time as the API server stores it, in whole seconds: with any other the same report would always be due.
func stored(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// reportHolders adds the processes that have a device open; found is nil when they could not be read.
func reportHolders(report *topsv1.HostReport, found *task.DeviceHolders) {
	if found == nil {
		return
	}
	report.DeviceHoldersVisible, report.MoreDeviceHolders = ptr.To(found.Visible), int32(found.More)
	for _, p := range found.Processes {
		report.DeviceHolders = append(report.DeviceHolders, topsv1.DeviceHolder{PID: int32(p.PID), Command: message.Short(p.Command, maxVersion), UID: p.UID,
			Container: message.Short(p.Container, maxVersion), PodUID: message.Short(p.PodUID, maxIdentity), Device: message.Short(p.Device, maxMessage)})
	}
}

// Due reports whether a report must be applied: it differs from the stored one, or that one
// is old. A change of only the free disk space, which is frequent, waits for the next report.
func Due(shown, report *topsv1.HostReport) bool {
	if shown == nil {
		return true
	}
	age := report.Time.Sub(shown.Time.Time)
	return age >= ReportPeriod || age < 0 || !equality.Semantic.DeepEqual(lasting(shown), lasting(report))
}

func lasting(r *topsv1.HostReport) *topsv1.HostReport {
	r = r.DeepCopy()
	r.Time = metav1.Time{}
	if r.FreeDiskBytes != nil {
		r.FreeDiskBytes = ptr.To(int64(0))
	}
	return r
}

// CurrentOperations returns the ids of the operations in spec and status of the NodeUpgrade, and of its
// prepulls.
func CurrentOperations(nodeUpgrade *topsv1.NodeUpgrade) []string {
	var ids []string
	if o := nodeUpgrade.Spec.Operation; o != nil {
		ids = append(ids, o.ID)
	}
	if o := nodeUpgrade.Status.Operation; o != nil {
		ids = append(ids, o.ID)
	}
	for i := range nodeUpgrade.Spec.Prepulls {
		ids = append(ids, nodeUpgrade.Spec.Prepulls[i].ID)
	}
	return ids
}

// ResultsOf returns recorded results as in the API, sorted: those of the current operations,
// and of as many of the latest others as fit.
func ResultsOf(node string, recorded []task.Result, current []string) []topsv1.HostTaskResult {
	of := map[string][]task.Result{}
	last := map[string]time.Time{}
	for _, r := range recorded {
		of[r.ID] = append(of[r.ID], r)
		if r.Started.After(last[r.ID]) {
			last[r.ID] = r.Started
		}
	}
	var others []string
	for id := range of {
		if !slices.Contains(current, id) {
			others = append(others, id)
		}
	}
	slices.SortFunc(others, func(a, b string) int {
		return cmp.Or(last[b].Compare(last[a]), cmp.Compare(a, b))
	})
	var shown []topsv1.HostTaskResult
	operations := slices.Compact(slices.Concat(current, others))
	for _, id := range operations[:min(len(operations), max(keptOperations, len(current)))] {
		if len(shown)+len(of[id]) > maxResults {
			break
		}
		for _, r := range of[id] {
			shown = append(shown, ResultOf(node, r))
		}
	}
	slices.SortFunc(shown, func(a, b topsv1.HostTaskResult) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Task, b.Task))
	})
	return shown
}

// ResultOf returns one result as in the API.
func ResultOf(node string, r task.Result) topsv1.HostTaskResult {
	result := topsv1.HostTaskResult{
		Operation: r.ID, Task: node + "_" + r.Task, Attempt: int32(r.Attempt),
		State: r.State, Reason: message.Short(string(r.Reason), maxReason), Message: message.Short(r.Message, maxMessage),
	}
	if !r.Started.IsZero() {
		result.StartTime = ptr.To(metav1.NewTime(r.Started))
	}
	if !r.Finished.IsZero() {
		result.EndTime = ptr.To(metav1.NewTime(r.Finished))
	}
	return result
}

// WithRefused returns the recorded results, with refused ones, by task key, in place of those
// of the same task.
func WithRefused(recorded []task.Result, refused map[string]task.Result) []task.Result {
	all := slices.DeleteFunc(slices.Clone(recorded), func(r task.Result) bool {
		_, is := refused[task.KeyOf(r.ID, r.Task)]
		return is
	})
	for _, r := range refused {
		all = append(all, r)
	}
	return all
}
