package operation

import (
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// A node goes back to v1 while the newest revision is v2.
func TestAnOperationBringsAnEarlierRevision(t *testing.T) {
	back := func(f *Facts) {
		for i := range f.Wanted.Targets {
			if target := &f.Wanted.Targets[i]; target.Component == "driver" {
				target.Revision, target.KeptFrom, target.Previous = "v1", "v2", "v2"
			}
		}
		pod(f, "driver").Revision = "v2"
	}
	for _, tt := range []struct {
		name    string
		changes []func(*Facts)
		want    string
	}{
		{"its pod leaves though it is the newest one", nil, "Running driver_replace InProgress TaintDevice"},
		{"one at the gate is not deleted", []func(*Facts){func(f *Facts) { pod(f, "driver").Gated = true }}, "Running driver_replace InProgress"},
		{"that of the earlier revision is waited for", []func(*Facts){func(f *Facts) { p := pod(f, "driver"); p.Revision, p.Available = "v1", false }}, "Running driver_replace InProgress"},
		{"with another newest revision it ends", []func(*Facts){newestDriver("v3")}, "Releasing then Aborted driver_replace TargetChanged"},
		{"as long as that is not known it waits", []func(*Facts){newestDriver("")}, "Running driver_replace InProgress"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := reach(t, "driver_replace", driverOnly...)
			f.Wanted = f.Wanted.DeepCopy()
			back(&f)
			for _, change := range tt.changes {
				change(&f)
			}
			if got := summaryOf(newMachine(t).Next(f)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	target := topsv1.OperationTarget{Revision: "v2"}
	if target.AllNewest()[0].Revision != "v2" {
		t.Error("without another one the wanted revision is the newest one")
	}
}
