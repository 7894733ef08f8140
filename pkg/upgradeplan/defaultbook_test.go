package upgradeplan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheDefaultBookIsValid(t *testing.T) {
	if err := DefaultBook().Validate(); err != nil {
		t.Error(err)
	}
}

func TestTheDefaultBookIsANewCopyEachTime(t *testing.T) {
	mine := DefaultBook()
	mine.Actions[0].Name, mine.Targets[1].Needs[0].Actions[0], mine.Steps[4].Targets[0] = "x", "x", "x"
	if err := DefaultBook().Validate(); err != nil {
		t.Error(err)
	}
}

// The path of design section 4, and what remains of it for smaller changes.
// Contract 95 and 98.
func TestTheJobOfANodeByTheDefaultBook(t *testing.T) {
	all := []string{TargetGFD, TargetNFD, TargetExporter, TargetDevicePlugin, TargetToolkit, TargetDriver}
	cases := []struct {
		name     string
		deployed []string
		changed  []string
		want     []string
		removed  []string
	}{
		{
			"everything changed", all, all,
			[]string{
				"precheck node", "prepull driver, toolkit, devicePlugin, exporter, gfd, nfd", "cordon node", "evict node",
				"replace driver", "verify driver", "replace toolkit", "restart-runtime node", "verify runtime",
				"replace devicePlugin", "verify allocatable", "replace exporter, gfd, nfd", "soak node", "uncordon node",
			},
			nil,
		},
		{
			"a driver restarts what uses the device, whose images are not pulled", all, []string{TargetDriver},
			[]string{
				"precheck node", "prepull driver", "cordon node", "evict node", "replace driver", "verify driver",
				"replace devicePlugin", "verify allocatable", "replace exporter, gfd", "soak node", "uncordon node",
			},
			nil,
		},
		{
			"a toolkit does not touch the driver or what uses the device", all, []string{TargetToolkit},
			[]string{
				"precheck node", "prepull toolkit", "cordon node", "evict node", "replace toolkit", "restart-runtime node",
				"verify runtime", "verify allocatable", "soak node", "uncordon node",
			},
			nil,
		},
		{
			"a light component goes with a heavy one", all, []string{TargetToolkit, TargetNFD},
			[]string{
				"precheck node", "prepull toolkit, nfd", "cordon node", "evict node", "replace toolkit", "restart-runtime node",
				"verify runtime", "verify allocatable", "replace nfd", "soak node", "uncordon node",
			},
			nil,
		},
		{"an exporter alone is a replaced pod", all, []string{TargetExporter}, []string{"replace exporter"}, nil},
		{
			"light components are replaced in order", all, []string{TargetNFD, TargetDevicePlugin, TargetGFD},
			[]string{"replace devicePlugin", "replace gfd, nfd"}, nil,
		},
		{
			"what is not deployed is not restarted", []string{TargetDriver}, []string{TargetDriver},
			[]string{
				"precheck node", "prepull driver", "cordon node", "evict node", "replace driver", "verify driver",
				"verify allocatable", "soak node", "uncordon node",
			},
			nil,
		},
		{
			"the sharing plugin takes the place of the device plugin", []string{TargetDriver, TargetGcusharePlugin}, []string{TargetDriver},
			[]string{
				"precheck node", "prepull driver", "cordon node", "evict node", "replace driver", "verify driver",
				"replace gcusharePlugin", "verify allocatable", "soak node", "uncordon node",
			},
			nil,
		},
		{
			"a driver that is removed is not pulled ahead, nor verified", all, []string{TargetDriver},
			[]string{"precheck node", "cordon node", "evict node", "replace driver", "replace devicePlugin", "replace exporter, gfd", "soak node", "uncordon node"},
			[]string{TargetDriver},
		},
		{
			"no runtime is restarted for a toolkit that is removed", all, []string{TargetToolkit, TargetNFD},
			[]string{"precheck node", "cordon node", "evict node", "replace toolkit", "replace nfd", "soak node", "uncordon node"},
			[]string{TargetToolkit},
		},
		{
			"what stays is verified", all, []string{TargetDriver, TargetExporter},
			[]string{
				"precheck node", "prepull driver", "cordon node", "evict node", "replace driver", "verify driver", "replace devicePlugin", "verify allocatable",
				"replace exporter, gfd", "soak node", "uncordon node",
			},
			[]string{TargetExporter},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := mustPlan(t, DefaultBook(), []Node{{Name: "n1", Deployed: c.deployed, Changed: c.changed, Removed: c.removed}}, 0)
			if len(m) != 1 || len(m[0]) != 1 {
				t.Fatalf("the node has more than one job: %v", m)
			}
			if diff := cmp.Diff(c.want, wordsOf(m[0][0])); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
		})
	}
}

// Contract 98.
func TestNoDifferenceIsNoPlan(t *testing.T) {
	always := LogicBook{
		Actions: []Action{{Name: "check"}},
		Targets: []Target{{Name: "node", OfNode: true, Needs: []Need{{Actions: []string{"check"}}}}},
		Steps:   []Step{{Action: "check"}},
	}
	for _, book := range []LogicBook{DefaultBook(), always} {
		if m := mustPlan(t, book, fleetOf(3), 0); m != nil {
			t.Errorf("got %v", outline(m))
		}
	}
}

func TestNarrowKeepsTheCordonAndTheRestartsOfWhatIsLeft(t *testing.T) {
	nodes := fleetOf(3, TargetDriver, TargetToolkit, TargetNFD)
	narrow := []Node{Narrow(nodes[0], nil), Narrow(nodes[1], []string{TargetDriver}), Narrow(nodes[2], []string{TargetNFD})}
	want := [][]string{{
		"n00002: precheck node > prepull driver > cordon node > evict node > replace driver > verify driver > " +
			"replace devicePlugin > verify allocatable > replace exporter, replace gfd > soak node > uncordon node",
		"n00003: replace nfd",
	}}
	if diff := cmp.Diff(want, outline(mustPlan(t, DefaultBook(), narrow, 0))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(fleetOf(3, TargetDriver, TargetToolkit, TargetNFD), nodes); diff != "" {
		t.Errorf("the nodes were changed: %s", diff)
	}
}

func TestDisruptionIsTheWorstOfTheComponents(t *testing.T) {
	cases := []struct {
		name    string
		changed []string
		stops   bool
		want    Disruption
	}{
		{"nothing", nil, true, ""},
		{"a component that the book does not know", []string{"x"}, true, ""},
		{"light", []string{TargetNFD, TargetExporter}, true, ReplacePod},
		{"a driver evicts, whatever the runtime does", []string{TargetNFD, TargetDriver}, true, EvictAccelerator},
		{"a toolkit restarts the runtime", []string{TargetToolkit, TargetDriver}, false, RestartRuntime},
		{"a toolkit drains the node when the restart stops containers", []string{TargetToolkit}, true, DrainNode},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := DefaultBook().Disruption(c.changed, c.stops); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUndoIsTheActionOfTheBookOnTheSameTarget(t *testing.T) {
	book := DefaultBook()
	for _, c := range []struct{ task, want string }{
		{"n1_node_cordon", "n1_node_uncordon"},
		{"n1_driver_replace", "n1_driver_restore"},
		{"n1_node_evict", ""},
		{"n1_node_uncordon", ""},
		{"n1_node_unheard-of", ""},
	} {
		task, err := ParseTask(c.task)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := book.InverseOf(task)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("undo of %s: got %s, %v, want %q", c.task, got, ok, c.want)
		}
	}
}

// A book may differ: here the exporter is as disruptive as a driver.
func TestABookWithAnotherDisruptionPlansAccordingly(t *testing.T) {
	book := DefaultBook()
	i := slices.IndexFunc(book.Targets, func(t Target) bool { return t.Name == TargetExporter })
	book.Targets[i].Disruption = EvictAccelerator
	want := [][]string{{"n00001: precheck node > prepull exporter > cordon node > evict node > verify allocatable > replace exporter > soak node > uncordon node"}}
	if diff := cmp.Diff(want, outline(mustPlan(t, book, fleetOf(1, TargetExporter), 0))); diff != "" {
		t.Error(diff)
	}
}
