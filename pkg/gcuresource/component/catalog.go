package component

import (
	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Names of the components: their keys in the spec (contract statement 25).
const (
	NFD               = "nfd"
	Driver            = "driver"
	Toolkit           = "toolkit"
	DevicePlugin      = "devicePlugin"
	GcusharePlugin    = "gcusharePlugin"
	GcushareScheduler = "gcushareScheduler"
	Nightingale       = "nightingale"
	Exporter          = "exporter"
	GFD               = "gfd"
	Volcano           = "volcano"
)

// Readiness says when a component runs.
type Readiness string

const (
	// OnEveryNode means an available pod on every Ready node it belongs on, and
	// at least one such node (contract section 2.10).
	OnEveryNode Readiness = "OnEveryNode"
	// EveryReplica means that all replicas of its Deployments are available at
	// the newest template, and that its Jobs are complete.
	EveryReplica Readiness = "EveryReplica"
)

// Disruption says what replacing the pod of a component does to the node it is
// on (design section 6).
type Disruption string

const (
	// ReplacesPod disturbs nobody else.
	ReplacesPod Disruption = "ReplacePod"
	// RestartsRuntime restarts the container runtime of the node.
	RestartsRuntime Disruption = "RestartRuntime"
	// EvictsAccelerators needs every pod gone that uses the node's cards.
	EvictsAccelerators Disruption = "EvictAcceleratorPods"
)

// Entry is one component of the catalog.
type Entry struct {
	// Name is the component's key in the spec.
	Name string
	// Needs are the components it does not work without (components.md section
	// 1.0), whether this gr deploys them or they were on the node before.
	Needs []string
	// Excludes are the components that must not be deployed in the same cluster,
	// by whatever gr: both would hand out the same cards (contract statement 34).
	Excludes []string
	// Readiness says when it runs.
	Readiness Readiness
	// Disruption is what replacing its pod does to a node.
	Disruption Disruption
	// requested tells whether a spec asks for it (contract statements 22 to 24).
	requested func(*topsv1.GcuResourceSpec) bool
	// render returns its objects in the order in which a status lists them
	// (contract statement 49).
	render func(*topsv1.GcuResourceSpec) ([]object, error)
}

// catalog has every component of the API in deployment order (contract
// statement 46, components.md section 1.0). The index of an entry, counted
// from 1, is its place in AnnotationOrder.
var catalog = []Entry{
	{Name: NFD, Readiness: OnEveryNode, Disruption: ReplacesPod, render: always(renderNFD),
		requested: func(s *topsv1.GcuResourceSpec) bool { return s.NFD != nil && !s.NFD.NotDeploy }},
	{Name: Driver, Needs: []string{NFD}, Readiness: OnEveryNode, Disruption: EvictsAccelerators, render: always(renderDriver),
		requested: func(s *topsv1.GcuResourceSpec) bool { return asked(s.Driver) }},
	{Name: Toolkit, Needs: []string{Driver}, Readiness: OnEveryNode, Disruption: RestartsRuntime, render: always(renderToolkit),
		requested: func(s *topsv1.GcuResourceSpec) bool { return asked(s.Toolkit) }},
	{Name: DevicePlugin, Needs: []string{Driver, Toolkit}, Excludes: []string{GcusharePlugin, GcushareScheduler},
		Readiness: OnEveryNode, Disruption: ReplacesPod, render: always(renderDevicePlugin),
		requested: func(s *topsv1.GcuResourceSpec) bool { return asked(devicePlugin(s)) }},
	{Name: GcusharePlugin, Needs: []string{Driver, Toolkit}, Excludes: []string{DevicePlugin},
		Readiness: OnEveryNode, Disruption: ReplacesPod, render: always(renderGcusharePlugin),
		requested: SharesCards},
	{Name: GcushareScheduler, Needs: []string{GcusharePlugin}, Excludes: []string{DevicePlugin},
		Readiness: EveryReplica, Disruption: ReplacesPod, render: always(renderGcushareScheduler),
		requested: func(s *topsv1.GcuResourceSpec) bool { return asked(s.GcushareScheduler) }},
	{Name: Nightingale, Readiness: EveryReplica, Disruption: ReplacesPod, render: always(renderNightingale),
		requested: func(s *topsv1.GcuResourceSpec) bool { return s.Nightingale != nil && !s.Nightingale.NotDeploy }},
	{Name: Exporter, Needs: []string{Driver}, Readiness: OnEveryNode, Disruption: ReplacesPod, render: always(renderExporter),
		requested: func(s *topsv1.GcuResourceSpec) bool { return asked(s.Exporter) }},
	{Name: GFD, Needs: []string{NFD, Driver, Toolkit}, Readiness: OnEveryNode, Disruption: ReplacesPod, render: always(renderGFD),
		requested: func(s *topsv1.GcuResourceSpec) bool { return asked(s.GFD) }},
	{Name: Volcano, Readiness: EveryReplica, Disruption: ReplacesPod, render: renderVolcano,
		requested: func(s *topsv1.GcuResourceSpec) bool { return s.Volcano != nil && !s.Volcano.NotDeploy }},
}

// always is a render function that cannot fail.
func always(render func(*topsv1.GcuResourceSpec) []object) func(*topsv1.GcuResourceSpec) ([]object, error) {
	return func(spec *topsv1.GcuResourceSpec) ([]object, error) { return render(spec), nil }
}

func asked(fields *topsv1.BaseFields) bool { return fields != nil && !fields.NotDeploy }

// devicePlugin returns the fields of the device plugin, which has a second
// name in the spec (decision D2). The API server refuses a spec with both.
func devicePlugin(spec *topsv1.GcuResourceSpec) *topsv1.BaseFields {
	if spec.DevicePlugin != nil {
		return spec.DevicePlugin
	}
	return spec.Plugin
}

// SharesCards tells whether a spec deploys gcusharePlugin, which runs on nodes
// with LabelGcushare only.
func SharesCards(spec *topsv1.GcuResourceSpec) bool {
	return spec.GcusharePlugin != nil && asked(&spec.GcusharePlugin.BaseFields)
}

// Find returns the entry of a component, nil for a name that is not in the
// catalog.
func Find(name string) *Entry {
	if place := Place(name); place <= len(catalog) {
		return &catalog[place-1]
	}
	return nil
}

// Place returns the deployment order of a component, counted from 1. A name
// that is not in the catalog (an object of a newer version) comes last.
func Place(name string) int {
	for i := range catalog {
		if catalog[i].Name == name {
			return i + 1
		}
	}
	return len(catalog) + 1
}

// PerNode returns the names of the components that run on nodes, in deployment order.
func PerNode() []string {
	var names []string
	for i := range catalog {
		if catalog[i].Readiness == OnEveryNode {
			names = append(names, catalog[i].Name)
		}
	}
	return names
}

// Requested returns the names of the components a spec asks for, in deployment
// order.
func Requested(spec *topsv1.GcuResourceSpec) []string {
	var names []string
	for i := range catalog {
		if catalog[i].requested(spec) {
			names = append(names, catalog[i].Name)
		}
	}
	return names
}
