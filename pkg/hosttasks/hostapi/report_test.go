package hostapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func TestReportOf(t *testing.T) {
	got := ReportOf(task.Facts{
		Host: &task.HostFacts{DriverVersion: "1.0", Devices: ptr.To(8), BootID: "b", FreeDiskBytes: ptr.To(int64(5)), Missing: make([]string, 20)},
		Runtime: &task.RuntimeFacts{Engine: task.Docker, Version: "20.10", Default: "runc", RestartStopsContainers: true,
			Instance: "of no interest to others", Started: noon.Add(250 * time.Millisecond), DefaultSince: noon.Add(-time.Hour + time.Millisecond)},
	}, noon.Add(time.Millisecond))
	want := &topsv1.HostReport{Time: metav1.NewTime(noon), BootID: "b", DriverVersion: "1.0", Devices: ptr.To[int32](8), FreeDiskBytes: ptr.To(int64(5)),
		Runtime: &topsv1.RuntimeReport{Engine: "docker", Version: "20.10", Default: "runc", RestartStopsContainers: ptr.To(true),
			StartTime: ptr.To(metav1.NewTime(noon)), DefaultSince: ptr.To(metav1.NewTime(noon.Add(-time.Hour)))}, Missing: make([]string, 16)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	got = ReportOf(task.Facts{Host: &task.HostFacts{Holders: &task.DeviceHolders{Visible: true, More: 3,
		Processes: []task.DeviceHolder{{PID: 7, Command: "python3", UID: 4294967295, Container: "docker://3f2a", PodUID: "p", Device: "/dev/gcu0"}}}}}, noon)
	want = &topsv1.HostReport{Time: metav1.NewTime(noon), DeviceHoldersVisible: ptr.To(true), MoreDeviceHolders: 3,
		DeviceHolders: []topsv1.DeviceHolder{{PID: 7, Command: "python3", UID: 4294967295, Container: "docker://3f2a", PodUID: "p", Device: "/dev/gcu0"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report of a process (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&topsv1.HostReport{Time: metav1.NewTime(noon)}, ReportOf(task.Facts{}, noon)); diff != "" {
		t.Errorf("report of nothing (-want +got):\n%s", diff)
	}
}

func TestAReportIsDue(t *testing.T) {
	shown := &topsv1.HostReport{Time: metav1.NewTime(noon), Devices: ptr.To[int32](8), FreeDiskBytes: ptr.To(int64(5)), Missing: []string{"x: y"}}
	change := func(f func(*topsv1.HostReport)) *topsv1.HostReport {
		r := shown.DeepCopy()
		r.Time = metav1.NewTime(noon.Add(ReportPeriod - time.Second))
		f(r)
		return r
	}
	for name, test := range map[string]struct {
		shown, report *topsv1.HostReport
		want          bool
	}{
		"when there is none":                       {nil, shown, true},
		"not when it says the same":                {shown, change(func(*topsv1.HostReport) {}), false},
		"when it is old":                           {shown, change(func(r *topsv1.HostReport) { r.Time.Time = r.Time.Add(time.Second) }), true},
		"when the clock went back":                 {shown, change(func(r *topsv1.HostReport) { r.Time.Time = noon.Add(-time.Hour) }), true},
		"not when only the free disk has changed":  {shown, change(func(r *topsv1.HostReport) { *r.FreeDiskBytes = 4 }), false},
		"when the free disk is not known any more": {shown, change(func(r *topsv1.HostReport) { r.FreeDiskBytes = nil }), true},
		"when a card is gone":                      {shown, change(func(r *topsv1.HostReport) { *r.Devices = 7 }), true},
		"when something else is missing":           {shown, change(func(r *topsv1.HostReport) { r.Missing = nil }), true},
		"when a process has opened a card":         {shown, change(func(r *topsv1.HostReport) { r.DeviceHolders = []topsv1.DeviceHolder{{PID: 7}} }), true},
		"when there is a result":                   {shown, change(func(r *topsv1.HostReport) { r.Results = []topsv1.HostTaskResult{{Task: "t"}} }), true},
	} {
		if got := Due(test.shown, test.report); got != test.want {
			t.Errorf("%s: due=%t", name, got)
		}
	}
}

func TestResultsOf(t *testing.T) {
	var recorded []task.Result
	for i := range 7 {
		for _, name := range []string{"driver_prepull", "node_restart-runtime"} {
			recorded = append(recorded, task.Result{ID: fmt.Sprint("op-", i), Task: name, Attempt: i, State: topsv1.HostTaskDone,
				Reason: task.ReasonRead, Started: noon.Add(time.Duration(i) * time.Hour)})
		}
	}
	operations := func(results []topsv1.HostTaskResult) (ids []string) {
		for _, r := range results {
			if r.Task == "node-a_driver_prepull" {
				ids = append(ids, r.Operation)
			}
		}
		return ids
	}
	got := ResultsOf("node-a", recorded, []string{"op-1", "op-2"})
	if diff := cmp.Diff([]string{"op-1", "op-2", "op-5", "op-6"}, operations(got)); diff != "" || len(got) != 8 {
		t.Errorf("operations with results (-want +got):\n%s", diff)
	}
	want := topsv1.HostTaskResult{Operation: "op-1", Task: "node-a_driver_prepull", Attempt: 1, State: topsv1.HostTaskDone,
		Reason: "Read", StartTime: ptr.To(metav1.NewTime(noon.Add(time.Hour)))}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	for i := range 61 { // with its other two results, the last operation leaves room for one
		recorded = append(recorded, task.Result{ID: "op-6", Task: fmt.Sprintf("c%d_prepull", i), Started: noon})
	}
	if diff := cmp.Diff([]string{"op-6"}, operations(ResultsOf("node-a", recorded, []string{"op-6", "op-6"}))); diff != "" {
		t.Errorf("operations with results (-want +got):\n%s", diff)
	}
}

func TestWhatWasRefusedIsShownInPlaceOfWhatIsRecorded(t *testing.T) {
	recorded := []task.Result{{ID: "a", Task: "x_y", State: topsv1.HostTaskDone}, {ID: "b", Task: "x_y", State: topsv1.HostTaskDone}}
	refused := map[string]task.Result{"b_x_y": {ID: "b", Task: "x_y", State: topsv1.HostTaskFailed}}
	got := WithRefused(recorded, refused)
	if len(got) != 2 || got[0].State != topsv1.HostTaskDone || got[1].State != topsv1.HostTaskFailed || recorded[1].State != topsv1.HostTaskDone {
		t.Errorf("results %+v of %+v", got, recorded)
	}
}
